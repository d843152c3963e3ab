"""`train`: one entry for all learned optimizers."""

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from sureprox.base.errors import ConfigError
from sureprox.base.files import locked
from sureprox.base.machine import memory_of
from sureprox.optimizers import AdaLISTA, LearnedOptimizer, Sure
from sureprox.sources import Family, LogisticFamily
from sureprox.training.backends import check_backend
from sureprox.training.config import FAMILIES, Config, LayerwiseConfig, Recipe, TrainingConfig
from sureprox.training.events import Listener
from sureprox.training.layerwise import LayerwiseRun
from sureprox.training.run import TrainingResult, TrainingRun
from sureprox.training.stream_config import StreamConfig
from sureprox.training.streamed import StreamedRun
from sureprox.training.team import join, launched
from sureprox.training.unrolled import UnrolledRun


def train(
    optimizer: LearnedOptimizer[Any],
    family: Family | str,
    config: Config,
    out: str | Path | None = None,
    *,
    device: torch.device | str | None = None,
    backend: str = "auto",
    listeners: Sequence[Listener] = (),
    tensorboard: bool = False,
    patience: float = 0.0,
) -> TrainingResult:
    """Train `optimizer` on fresh problems of `family`; at the end it holds the weights that were best in validation.

    With `out`, a directory, the run writes log.jsonl, checkpoint.pt and, when complete, model.safetensors with its
    card. A run that was interrupted (Ctrl-C, SIGTERM, or killed) goes on from its last checkpoint when called again
    with the same arguments, and on a CPU arrives at bitwise the same weights as if it had never stopped.

    `backend`: "plain" PyTorch, "compiled" step, "graph" (a CUDA graph over compiled steps, their backward pass and the
    update), or "auto". One that does not work here is replaced by "plain", and an event says so. `listeners` are
    called with every event of the log; one that raises `StopTraining` ends the run like an interruption.

    `out` is locked meanwhile, so that no two runs write to it; the system unlocks it when a process is killed.
    `patience`: seconds to wait for another run to let go of it.

    In processes started by torchrun all train as one: each takes its share of every batch, and weights, result and
    files are those of one process up to rounding. All must call with the same arguments; rank 0 alone writes to `out`
    and calls the listeners.
    """
    if not isinstance(optimizer, LearnedOptimizer):
        raise ConfigError(f"optimizer is a {type(optimizer).__name__}, which has no weights to train")
    if not isinstance(config, Config):
        raise ConfigError(f"config is a {type(config).__name__}; pass a TrainingConfig or use sureprox.training.preset")
    if isinstance(family, str) and family not in FAMILIES:
        raise ConfigError(f"family is {family!r}; choose one of {', '.join(sorted(FAMILIES))}, or pass a Family")
    problems: Family = FAMILIES[family]() if isinstance(family, str) else family
    check_fit(optimizer, problems, config)
    check_backend(backend)
    if tensorboard and out is None:
        raise ConfigError("tensorboard needs an output directory; pass out=...")
    place = _device(device)
    team = join(place)
    _check_memory(problems, config, place)
    recipe = Recipe(optimizer.kind, optimizer.arguments, problems, config)
    directory = None if out is None else Path(out)
    common = (recipe, optimizer, place, directory, list(listeners), tensorboard, team)
    run: TrainingRun
    with locked(directory, patience, ConfigError) if directory is not None and team.leads else contextlib.nullcontext():
        if isinstance(optimizer, AdaLISTA):
            run = LayerwiseRun(*common)
        elif isinstance(optimizer, Sure):
            run = StreamedRun(backend, *common)
        else:
            run = UnrolledRun(backend, *common)
        return run.go()


def check_fit(optimizer: LearnedOptimizer[Any], family: Family, config: Config) -> None:
    """Sure needs a StreamConfig, Ada-LISTA a LayerwiseConfig with its layers and LASSO, others a TrainingConfig."""
    special: dict[type[Any], type[Any]] = {AdaLISTA: LayerwiseConfig, Sure: StreamConfig}
    wanted = next((wanted for cls, wanted in special.items() if isinstance(optimizer, cls)), TrainingConfig)
    if not isinstance(config, wanted):
        raise ConfigError(f"{optimizer.kind} is trained with a {wanted.__name__}, not a {type(config).__name__}")
    if isinstance(optimizer, AdaLISTA) and isinstance(config, LayerwiseConfig):
        if config.layers != optimizer.layers:
            raise ConfigError(f"layers is {config.layers}; this AdaLISTA has {optimizer.layers}")
        what = "logistic problems" if optimizer.labels else "LASSO"
        if isinstance(family, LogisticFamily) != optimizer.labels or getattr(family, "m", optimizer.m) != optimizer.m:
            raise ConfigError(f"this AdaLISTA is for {what} with {optimizer.m} rows; it cannot be trained on {family}")


def _check_memory(family: Family, config: Config, device: torch.device) -> None:
    """The matrices of one batch alone must fit."""
    m, n = getattr(family, "m", 1), family.n
    needed = config.batch * m * n * (8 if config.dtype == "float64" else 4)
    there = memory_of(device)
    if there is not None and needed > there:
        raise ConfigError(
            f"a batch of {config.batch} problems of {m} x {n} needs {needed / 1e9:.3g} GB; "
            f"{device} has {there / 1e9:.3g} GB of memory, lower batch, m or n"
        )


def _device(name: torch.device | str | None) -> torch.device:
    """The device of this name, known to exist; by default a GPU if there is one, its own for every process."""
    if name is None:
        name = "cuda" if torch.cuda.is_available() else "cpu"
    else:
        try:
            torch.empty(0, device=name)
        except (RuntimeError, AssertionError) as error:
            raise ConfigError(f"device {str(name)!r} cannot be used: {str(error).splitlines()[0]}") from None
    device, (_, processes, here) = torch.device(name), launched()
    if str(device) != "cuda" or processes == 1:  # one with a number was meant
        return device
    if here >= torch.cuda.device_count():
        raise ConfigError(
            f"LOCAL_RANK is {here}, but this machine has {torch.cuda.device_count()} GPUs; start one process for each"
        )
    return torch.device("cuda", here)
