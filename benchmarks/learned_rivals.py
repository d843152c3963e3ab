"""Gradients of learned optimizers that come with guarantees, on the problems they were published on, beside Sure.

    python benchmarks/learned_rivals.py [--setting NAME] [--missing] [--small]

Learned step sizes (LAH), with momentum (LAH Accel), Safe-L2O, HyperLISTA, silver steps; FISTA, Sure as it ships, and
Sure trained further on the instances that the schedules were trained on. Start zero, float64. The measure is theirs:
the mean of F - F* over the test instances, absolute; gradients are counted until it is below 1e-1, ..., 1e-6. Medians
over instances are recorded too. Each row is written when it is measured; `--missing` measures those that the record
lacks. `--small` tries the script and writes no record.
"""

import argparse
import json
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

import sureprox as sp
from sureprox.optimizers import FISTA, LocalFISTA, Optimizer, Silver, Sure
from sureprox.problems import Problem
from sureprox.training.fine_tuning import tuning
from sureprox.training.given import GivenProblems

from _learned_schedules import LOSSES, RATES, chosen_schedule
from _record import RECORDS, write_record
from _rival_methods import trained_safe_l2o, tuned_hyperlista
from _rival_setups import SETTINGS, Setting, solved, stretched

LEVELS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
MOST = 400  # iterations
SOME = 50  # instances for HyperLISTA and Safe-L2O
MANY = 100  # and for a schedule that has more to learn from than it was published with
OWN = "lasso 250 x 500"  # where everybody takes part
Built = tuple[Any, float, dict[str, Any]]  # an optimizer or a method that walks, gradients an iteration, facts


@torch.no_grad()
def gaps(problem: Problem, method: Any, best: Tensor) -> Iterator[Tensor]:
    """F - F* (B,) before and after each iteration, until its mean is below every level."""
    yield problem.objective(problem.start()) - best
    if isinstance(method, Optimizer):
        points = (state.x for state in sp.iterate(problem, method, method.init(problem, problem.start()), MOST))
    else:
        points = method.walk(problem, MOST)
    for x in points:
        gap = problem.objective(x) - best
        yield gap
        if float(gap.mean()) < LEVELS[-1]:
            break


def counted(problem: Problem, method: Any, cost: float, best: Tensor) -> dict[str, Any]:
    """Gradients until the mean, and the median instance, is below each level; None: not within MOST iterations."""
    curve = torch.stack(list(gaps(problem, method, best))).nan_to_num(nan=torch.inf)
    first = {level: (curve < level).to(torch.int8).argmax(0).double() for level in LEVELS}
    never = {level: ~(curve < level).any(0) for level in LEVELS}
    means = curve.mean(1)
    reached = [(means < level).nonzero() for level in LEVELS]
    middle = [first[level].masked_fill(never[level], torch.inf).median() for level in LEVELS]
    return {
        "mean": [cost * int(at[0]) if len(at) else None for at in reached],
        "median": [cost * float(k) if torch.isfinite(k) else None for k in middle],
        "curve": [float(f"{v:.3g}") for v in means.clamp(max=1e30)],
    }


def trained_further(setting: Setting, shipped: str, small: bool) -> Sure:
    """Sure's weights for such problems, trained on the few instances, the best on those to choose by kept."""
    start = sp.load(shipped)
    tuned = Sure(**start.arguments)
    tuned.take(dict(start.named_parameters()))
    family = GivenProblems(setting.train, setting.validation)
    size = setting.train.batch
    config = tuning(pool=size, batch=size, validation=setting.validation.batch, batches=5 if small else 200, seed=0)
    sp.train(tuned, family, config)
    return tuned.eval()


def builders(name: str, setting: Setting, small: bool) -> dict[str, Callable[[], Built]]:
    """Everybody, by name: the method, gradients an iteration, what training has found."""
    shipped = "sure/lasso" if "LASSO" in setting.about else "sure/logistic" if name == "logistic" else "sure"
    parts = setting.train, setting.validation
    rates = RATES if name == OWN and not small else RATES[:1]

    def learned(horizon: int, momentum: bool, rates: tuple[float, ...] = rates, wide: bool = False) -> Built:
        train, check = (stretched(part, 3.0) for part in parts) if wide else parts
        schedule, facts = chosen_schedule(train, check, horizon, momentum, rates)
        return schedule, 1, facts

    def learned_from_many() -> Built:
        assert setting.many is not None
        order = torch.arange(setting.many.batch)
        train, check = (setting.many.select(part) for part in (order[:MANY], order[MANY:]))
        schedule, facts = chosen_schedule(train, check, 30, True, RATES[:1], LOSSES[:1])
        return schedule, 1, facts

    some = setting.validation.select(torch.arange(SOME))

    def hyperlista() -> Built:
        assert setting.known is not None
        method = tuned_hyperlista(some, setting.known[setting.train.batch :][:SOME], 15 if small else 150)
        return method, method.cost, {"c": method.c}

    def safe_l2o() -> Built:
        method, facts = trained_safe_l2o(some, setting.train)
        return method, method.cost, facts

    everybody: dict[str, Callable[[], Built]] = {
        "FISTA": lambda: (FISTA(), 1, {}),
        "restarted FISTA": lambda: (FISTA(restart=True), 1, {}),
        "FISTA, local L": lambda: (LocalFISTA(), 1, {}),
        "silver steps": lambda: (Silver(), 1, {}),
    }
    everybody["Sure"] = lambda: (sp.load(shipped), 1, {"weights": shipped})
    if shipped != "sure":
        everybody["Sure, general weights"] = lambda: (sp.load("sure"), 1, {})
    everybody["Sure, trained further"] = lambda: (trained_further(setting, shipped, small), 1, {})
    everybody |= {
        "LAH": lambda: learned(30, False),
        "LAH Accel": lambda: learned(30, True),
    }
    if name == OWN:
        everybody |= {
            "LAH Accel, shift in sight": lambda: learned(30, True, rates[:1], wide=True),
            "LAH Accel, 60 steps": lambda: learned(60, True, rates[:1]),
            "LAH Accel, 100 instances": learned_from_many,
            "HyperLISTA": hyperlista,
            "Safe-L2O": safe_l2o,
        }
    return everybody


def recovery(problem: Problem, z: Tensor, method: Any) -> dict[str, float]:
    """|x - z|^2 / |z|^2 in dB, z the signal behind b: of the minimiser, and of HyperLISTA after 20 iterations."""
    *_, x = method.walk(problem, 20)
    return {
        label: float(10 * ((point - z).square().sum() / z.square().sum()).log10())
        for label, point in {"the minimiser of F": solved(problem).x, "HyperLISTA": x}.items()
    }


def measured(setting: Setting, built: Built) -> dict[str, dict[str, Any]]:
    """`counted`, test by test."""
    method, cost, _ = built
    return {where: counted(part, method, cost, solved(part).objective) for where, part in setting.tests.items()}


def added(numbers: dict[str, Any], setting: Setting, label: str, built: Built, rows: dict[str, Any]) -> None:
    """One row, in all tables."""
    method, cost, facts = built
    numbers["about"] = setting.about
    numbers.setdefault("training", {})[label] = facts
    for where, row in rows.items():
        for kind in ("mean", "median"):
            found = dict(zip(map("{:.0e}".format, LEVELS), row[kind], strict=True))
            numbers.setdefault(kind, {}).setdefault(where, {})[label] = found
        numbers.setdefault("curves", {}).setdefault(where, {})[label] = {"gradients": cost, "gap": row["curve"]}
    if label == "HyperLISTA":
        where = "in distribution"
        numbers["recovery_dB"] = recovery(setting.tests[where], setting.signals[where], method)


def recorded() -> dict[str, Any]:
    """What the record holds."""
    path = RECORDS / "learned_rivals.json"
    found: dict[str, Any] = json.loads(path.read_text())["settings"] if path.exists() else {}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--setting", choices=SETTINGS, action="append")
    parser.add_argument("--missing", action="store_true", help="only rows that the record lacks")
    parser.add_argument("--small", action="store_true", help="few instances, no record")
    options = parser.parse_args()
    torch.set_num_threads(1)
    for name in options.setting or SETTINGS:
        setting = SETTINGS[name](options.small)
        print(setting.about, flush=True)
        for label, build in builders(name, setting, options.small).items():
            if options.missing and label in recorded().get(name, {}).get("training", {}):
                continue
            built = build()
            rows = measured(setting, built)
            print(label, {where: row["mean"] for where, row in rows.items()}, flush=True)
            settings = recorded()  # now, as another setting may have been measured meanwhile
            added(settings.setdefault(name, {}), setting, label, built, rows)
            facts = {"levels": LEVELS, "most": MOST, "start": "zero", "dtype": "float64"}
            if not options.small:
                write_record("learned_rivals", {"options": facts, "settings": settings})


if __name__ == "__main__":
    main()
