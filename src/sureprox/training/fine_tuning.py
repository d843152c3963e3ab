"""`fine_tune`: from a file of problems to weights of Sure made for them, judged on problems that training never saw."""

import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sureprox.base.defaults import TOL
from sureprox.base.errors import ConfigError, TrainingError
from sureprox.base.files import write_atomically
from sureprox.optimizers import Optimizer, Sure, load, save
from sureprox.problems import Problem
from sureprox.solve.options import require_problem
from sureprox.solve.solve import named, solve
from sureprox.training.api import train
from sureprox.training.config import config_dict, family_dict, override
from sureprox.training.events import Listener
from sureprox.training.given import GivenProblems
from sureprox.training.run import TrainingResult
from sureprox.training.stream_config import StreamConfig

LEAST = 20  # problems
HELD_OUT, VALIDATION = 0.25, 0.15  # shares of the problems, kept from training
FINE_TUNING = StreamConfig(
    segment=20,
    batch=32,
    batches=300,
    horizon=400,
    learning_rate=0.002,
    warm_up=20,
    validate_every=25,
    validation=48,
    length=120,
    checkpoint_every=50,
)
TUNED, BASE, CLASSICAL, DEFAULT = "tuned", "before", "fista-restart", "default"


class StoppedError(TrainingError):
    """Somebody stopped the training."""


@dataclass(frozen=True)
class Trial:
    """One optimizer on the held-out problems: iterations (B,), how many did not converge, seconds of the batch."""

    iterations: Tensor
    unconverged: int
    seconds: float

    @property
    def median(self) -> float:
        return float(self.iterations.double().median())


@dataclass(frozen=True)
class FineTuned:
    """`optimizer`: the tuned weights if they were `accepted`, those training began with if not.

    `gain`: geometric mean, over the held-out problems, of iterations before / iterations after; `uncertainty`: two
    standard errors of its logarithm. `trials` compares the tuned weights, those before, restarted FISTA and what
    `solve` runs by default.
    """

    optimizer: Sure
    accepted: bool
    gain: float
    uncertainty: float
    trials: Mapping[str, Trial]
    training: TrainingResult

    @property
    def paid_back(self) -> float:
        """After how many problems the seconds of training are won back; infinite if each takes longer than before."""
        before, after = self.trials[BASE], self.trials[TUNED]
        saved = (before.seconds - after.seconds) / len(after.iterations)
        return self.training.seconds / saved if saved > 0 else float("inf")

    def __str__(self) -> str:
        count = len(self.trials[TUNED].iterations)
        verdict = "accepted" if self.accepted else "refused: not clearly better than the weights before"
        lines = [f"{self.gain:.2f} times fewer iterations than before on {count} held-out problems: {verdict}"]
        for name, trial in self.trials.items():
            lost = f", {trial.unconverged} not converged" if trial.unconverged else ""
            lines.append(f"  {name:14} median {trial.median:5.0f} iterations, {trial.seconds:.3g} s{lost}")
        return "\n".join(lines)


def fine_tune(
    problem: Problem,
    base: Sure | str = "sure",
    out: str | Path | None = None,
    *,
    seed: int = 0,
    changes: Mapping[str, Any] | None = None,
    device: torch.device | str | None = None,
    listeners: Sequence[Listener] = (),
) -> FineTuned:
    """Train Sure on the instances of `problem`, from the weights `base`, and try it on instances kept aside.

    A quarter of the instances is held out, and nothing is chosen by them; of the rest some judge the training. The new
    weights are accepted only if they need fewer iterations on the held-out instances than `base`, by a geometric mean
    that is larger than its uncertainty, and leave no more of them unsolved. With "sure" as `base` training starts from
    the weights that `solve` would take.

    `out`: a directory, for the log and checkpoints of the training (an interrupted run continues when called again),
    for `report.json`, and for `model.safetensors` if the weights are accepted: `sp.solve(problem, "out/model")`.
    `changes`: of `StreamConfig`, such as `batches` or `learning_rate`; see `FINE_TUNING`.

    The loss must have an L and be a function of A x, and the penalty separable. Iterations are those of `sp.solve` with
    its defaults, checked at each one.
    """
    require_problem(problem)
    _require_many(problem)
    start = _loaded(base, problem)
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(problem.batch, generator=generator).to(problem.device)
    first, second = int(HELD_OUT * problem.batch), int((HELD_OUT + VALIDATION) * problem.batch)
    held, validation, rest = (problem.select(some) for some in (order[:first], order[first:second], order[second:]))
    config = tuning(pool=rest.batch, validation=validation.batch, seed=seed, **(changes or {}))
    tuned = Sure(**start.arguments)
    tuned.take(dict(start.named_parameters()))
    folder = None if out is None else Path(out)
    family = GivenProblems(rest, validation)
    result = train(
        tuned, family, config, None if folder is None else folder / "training", device=device, listeners=listeners
    )
    if not result.completed:
        how = "pass out=... to be able to continue" if folder is None else "the same call continues"
        raise StoppedError(f"training was stopped after {result.batches} of {config.batches} batches; {how}")
    tuned.to(device=problem.device)
    trials = {name: _tried(held, one) for name, one in _contestants(tuned, start).items()}
    found = _judged(tuned, start, trials, result)
    if folder is not None:
        _write(found, folder, family, config)
    return found


def tuning(**changes: Any) -> StreamConfig:
    """`FINE_TUNING` with these values in place of its own."""
    config = override(FINE_TUNING, changes)
    assert isinstance(config, StreamConfig)
    return config


def _require_many(problem: Problem) -> None:
    if problem.batch < LEAST or not problem.selectable:
        raise ConfigError(f"fine_tune needs at least {LEAST} problems that can be told apart, got {problem!r}")


def _loaded(base: Sure | str, problem: Problem) -> Sure:
    if isinstance(base, str):
        found = named(base, problem)
        chosen = load("sure") if base == "sure" and not isinstance(found, Sure) else found
    else:
        chosen = base
    if not isinstance(chosen, Sure):
        raise ConfigError(f"base is {base!r}; fine_tune trains Sure: pass 'sure', one of its weights, or a path")
    return chosen


def _contestants(tuned: Sure, start: Sure) -> dict[str, Optimizer[Any] | str | None]:
    return {TUNED: tuned, BASE: start, CLASSICAL: CLASSICAL, DEFAULT: None}


def _tried(problem: Problem, optimizer: Optimizer[Any] | str | None) -> Trial:
    """Iterations by checks at each one, seconds of another run with the checks that users have."""
    counted = solve(problem, optimizer, tol=TOL, check_every=1)
    began = time.perf_counter()
    solve(problem, optimizer, tol=TOL)
    seconds = time.perf_counter() - began
    return Trial(counted.iterations.cpu(), int((~counted.converged).sum()), seconds)


def _judged(tuned: Sure, start: Sure, trials: dict[str, Trial], result: TrainingResult) -> FineTuned:
    after, before = trials[TUNED], trials[BASE]
    ratio = (before.iterations.double().clamp(min=1) / after.iterations.double().clamp(min=1)).log()
    mean, uncertainty = float(ratio.mean()), 2 * float(ratio.std()) / len(ratio) ** 0.5
    accepted = mean > uncertainty and after.unconverged <= before.unconverged
    return FineTuned(tuned if accepted else start, accepted, math.exp(mean), uncertainty, trials, result)


def _write(found: FineTuned, folder: Path, family: GivenProblems, config: StreamConfig) -> None:
    held = {
        name: {"median_iterations": trial.median, "unconverged": trial.unconverged, "seconds": trial.seconds}
        for name, trial in found.trials.items()
    }
    facts: dict[str, Any] = {
        "accepted": found.accepted,
        "gain": found.gain,
        "uncertainty": found.uncertainty,
        "held_out": len(found.trials[TUNED].iterations),
        "training_seconds": found.training.seconds,
        "trials": held,
    }
    write_atomically(folder / "report.json", (json.dumps(facts, indent=2) + "\n").encode())
    for suffix in (".safetensors", ".json"):
        (folder / f"model{suffix}").unlink(missing_ok=True)
    if found.accepted:
        metrics = {"held_out_gain": found.gain, "seconds": round(found.training.seconds, 1)}
        about: dict[str, Any] = {
            "family": family_dict(family),
            "training": config_dict(config),
            "seed": config.seed,
            "metrics": metrics,
        }
        save(found.optimizer, folder / "model", **about)
