"""`train`: one entry for all learned optimizers."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from sureprox.errors import ConfigError
from sureprox.optimizers import AdaLISTA, LearnedOptimizer
from sureprox.problems import Family
from sureprox.training.config import LayerwiseConfig, Recipe, TrainingConfig
from sureprox.training.events import Listener
from sureprox.training.layerwise import LayerwiseRun
from sureprox.training.run import TrainingResult
from sureprox.training.unrolled import UnrolledRun


def train(
    optimizer: LearnedOptimizer[Any],
    family: Family,
    config: TrainingConfig | LayerwiseConfig,
    out: str | Path | None = None,
    *,
    device: torch.device | str | None = None,
    backend: str = "auto",
    listeners: Sequence[Listener] = (),
    tensorboard: bool = False,
) -> TrainingResult:
    """Train `optimizer` on fresh problems of `family`; at the end it holds the weights that were best in validation.

    With `out`, a directory, the run writes log.jsonl, checkpoint.pt and, when complete, model.safetensors with its
    card. A run that was interrupted (Ctrl-C, SIGTERM, or killed) goes on from its last checkpoint when called again
    with the same arguments, and on a CPU arrives at bitwise the same weights as if it had never stopped.

    `backend`: "plain" PyTorch, "compiled" step, "graph" (a CUDA graph over compiled steps, their backward pass and the
    update), or "auto". One that does not work here is replaced by "plain", and an event says so. `listeners` are
    called with every event of the log.
    """
    if not isinstance(optimizer, LearnedOptimizer):
        raise ConfigError(f"optimizer is a {type(optimizer).__name__}, which has no weights to train")
    if not isinstance(config, TrainingConfig | LayerwiseConfig):
        raise ConfigError(f"config is a {type(config).__name__}; pass a TrainingConfig or use sureprox.training.preset")
    place = torch.device(device if device is not None else "cuda" if torch.cuda.is_available() else "cpu")
    recipe = Recipe(optimizer.kind, optimizer.arguments, family, config)
    common = (recipe, optimizer, place, _directory(out), list(listeners), tensorboard)
    run = LayerwiseRun(*common) if isinstance(optimizer, AdaLISTA) else UnrolledRun(backend, *common)
    return run.go()


def _directory(out: str | Path | None) -> Path | None:
    """`out`, made if needed and known to be writable before any work starts."""
    if out is None:
        return None
    path = Path(out)
    probe = path / ".writable"
    try:
        path.mkdir(parents=True, exist_ok=True)
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise ConfigError(f"cannot write to {path}: {error.strerror}; choose another output directory") from None
    return path
