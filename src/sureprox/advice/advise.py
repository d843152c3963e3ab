"""`advise`: measure, compare, recommend."""

from collections.abc import Callable, Sequence

import torch

from sureprox.advice.familiarity import familiarity
from sureprox.advice.measure import Race
from sureprox.advice.peers import externals
from sureprox.advice.result import Advice, Timing
from sureprox.advice.solvers import learned, restarted_fista, suitable
from sureprox.base.errors import InputError
from sureprox.problems import Problem
from sureprox.solve.plan import chosen_engine

BASELINE = "restarted FISTA"
STUDIED = 16  # problems whose statistics are compared with those of the training


@torch.no_grad()
def advise(
    problem: Problem,
    *,
    tol: float = 1e-6,
    budget: float = 20.0,
    sample: int = 1024,
    models: Sequence[str] | None = None,
    engine: str = "auto",
    progress: Callable[[str], None] = lambda solver: None,
) -> Advice:
    """Which solver is quickest on these problems, on this machine, to a relative duality gap of `tol`.

    A few of the problems are solved by restarted FISTA, by the suitable pretrained optimizers (or by `models`: names
    or paths), certified, and by those estimators of scikit-learn, SciPy, celer and skglm, where they are installed,
    that solve this very problem, one problem at a time in float64. Those that can still win then solve more and more
    of them, up to `sample`. A run counts only if our certificate says that it reached the gap; the others are given the
    loosest tolerance, in powers of ten, that does. The quickest of up to three runs counts. `budget`: seconds for all
    the runs together; a single call of another package is not interrupted, so that it may take a few seconds more.
    Where no peer is known the advice says so. `engine`: as in `solve`, for all runs of this package.

    Where not all problems were solved, the time of all is estimated: for batched solvers by the slope between the two
    largest samples, for the others by the time of one. `Familiarity` says whether a learned optimizer was trained on
    problems like these.
    """
    _check(problem, tol, budget, sample)
    chosen_engine(engine)
    race = Race(problem, sample, tol, budget, progress)
    few = race.part(min(STUDIED, race.most))
    names = suitable(problem) if models is None else list(models)
    others, missing = externals(problem, tol)
    ours = [restarted_fista(problem, tol, engine), *(learned(name, problem, tol, engine) for name in names)]
    if models is None and not names:
        missing |= {"pretrained optimizers": "they are for dense A, squares or logistic, and l1 alone"}
    known = tuple(familiarity(name, few) for name in names)
    measured = race.run([*others, *ours], BASELINE)
    unmeasured = [Timing(name, "", note=f"not measured: {why}") for name, why in missing.items()]
    ranked = sorted((t for t in measured if t.whole is not None), key=lambda t: t.whole or 0.0)
    failed = [t for t in measured if t.whole is None]
    best = ranked[0] if ranked else None
    return Advice(
        solver=best.solver if best else None,
        call=best.call if best else "",
        reason=_reason(ranked, problem.batch, tol),
        timings=(*ranked, *failed, *unmeasured),
        familiarity=known,
        problems=problem.batch,
        sample=max((timing.sample for timing in measured), default=0),
        tol=tol,
        device=problem.device.type,
    )


def _reason(ranked: Sequence[Timing], problems: int, tol: float) -> str:
    if not ranked:
        return f"No solver reached a relative gap of {tol:g} within the budget; raise budget or tol."
    best, *others = ranked
    text = f"It takes {_seconds(best.whole)} for {_all(problems)}."
    if others:
        text += f" The next fastest, {others[0].solver}, takes {_compared(others[0], best)}."
    return text


def _compared(other: Timing, best: Timing) -> str:
    """The time of `other`, and how many times that of `best` it is."""
    ratio = (other.whole or 0.0) / max(best.whole or 0.0, 1e-12)
    return f"{_seconds(other.whole)}, {ratio:.3g} times as long"


def _seconds(value: float | None) -> str:
    return f"{value or 0.0:.3g} s"


def _all(problems: int) -> str:
    return "this problem" if problems == 1 else f"all {problems:,} problems"


def _check(problem: Problem, tol: float, budget: float, sample: int) -> None:
    if not isinstance(problem, Problem):
        raise InputError(f"problem is a {type(problem).__name__}; make one with sureprox.lasso, logistic or Problem")
    if not 0 < tol < 1:
        raise InputError(f"tol is {tol!r}; it must lie between 0 and 1")
    if not 0 < budget < float("inf"):
        raise InputError(f"budget is {budget!r}; give seconds > 0")
    if sample < 1:
        raise InputError(f"sample is {sample!r}; it must be at least 1")
