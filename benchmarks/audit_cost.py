"""What an audited solve costs against the optimizer alone and against three tracks, in gradients and in seconds.

Gradients to 1e-6: products with A and A', both halves counted where they happen, of each instance alone, for as many
iterations as `solve` needs (float64, certificates of `solve` itself not counted: all need the same). Seconds: `solve`
as users call it, modes taking turns, the median of the rounds of each; ratios within this run only. The kernels of a
CPU serve LASSO problems. Last, optimizers that fail: the gradients against those of FISTA, restarted or not.

    python benchmarks/audit_cost.py [--instances 6] [--batch 16] [--rounds 7]
"""

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

import torch
from torch import Tensor

import sureprox as sp
from sureprox.evaluation.battery_forms import FORM_KINDS
from sureprox.evaluation.battery_kinds import KINDS
from sureprox.guarantee import Audited
from sureprox.optimizers import FISTA, ISTA, L2OPA, GoMathL2O, LocalFISTA, Optimizer
from sureprox.problems import Problem
from sureprox.problems.losses import LeastSquares, Softmax
from sureprox.problems.operators import Compose, Convolution, Difference, Haar, MaskedFourier, Operator
from sureprox.problems.penalties import L1, GroupBall

from _record import write_record

F64 = torch.float64
SEED = 20261119
MOST = 5000
MODES = (False, True, "audit")
NAMES = {False: "alone", True: "tracks", "audit": "audit"}
DENSE = (
    "lasso",
    "lasso-start+10",
    "lasso-lam-0.01",
    "lasso-noise",
    "lasso-ar-0.9",
    "lasso-64x128",
    "diabetes",
    "logistic",
    "logistic-start+10",
    "logistic-lam-0.01",
    "logistic-ar-0.9",
    "logistic-separable",
    "breast-cancer",
)
OTHER_DENSE = ("elastic-net", "nonnegative", "box", "huber", "poisson", "group")
OPERATORS = ("sparse", "sparse-tall", "deconvolution", "deconvolution-wide")


@dataclass(frozen=True)
class Row:
    """A kind of problem and an optimizer for it."""

    group: str
    kind: str
    name: str
    optimizer: Optimizer[Any]
    sample: Callable[[int, torch.Generator], tuple[Problem, Tensor]]


def from_battery(kind: Any, zero: bool) -> Callable[[int, torch.Generator], tuple[Problem, Tensor]]:
    def sample(count: int, generator: torch.Generator) -> tuple[Problem, Tensor]:
        drawn = kind.sample(count, generator)
        return drawn.problem, torch.zeros_like(drawn.start) if zero else drawn.start

    return sample


def image(count: int, side: int, generator: torch.Generator) -> Tensor:
    """(count, side * side): eight boxes of random height."""
    grid = torch.arange(side)
    made = torch.zeros(count, side, side, dtype=F64)
    for _ in range(8):
        low = torch.randint(0, side - 4, (2, count, 1), generator=generator)
        high = low + torch.randint(4, side, (2, count, 1), generator=generator)
        rows, columns = ((grid >= a) & (grid < b) for a, b in zip(low, high, strict=True))
        height = torch.randn(count, 1, 1, generator=generator, dtype=F64)
        made += height * (rows.unsqueeze(2) & columns.unsqueeze(1))
    return made.flatten(1)


def noisy(clean: Tensor, size: float, generator: torch.Generator) -> Tensor:
    return clean + size * torch.randn(clean.shape, generator=generator, dtype=F64)


def deblurring(count: int, generator: torch.Generator) -> tuple[Problem, Tensor]:
    place = torch.arange(-4, 5, dtype=F64)
    bell = torch.exp(-((place / 1.5) ** 2) / 2)
    blur = Convolution(torch.outer(bell, bell) / bell.sum() ** 2, (32, 32))
    b = noisy(blur.forward(image(count, 32, generator)), 0.02, generator)
    return zero_start(Problem(LeastSquares(Compose(blur, Synthesis(Haar((32, 32)))), b), L1(0.01)))


class Synthesis(Operator):
    """W', W an orthonormal transform."""

    def __init__(self, analysis: Operator) -> None:
        self.analysis = analysis

    @property
    def shape(self) -> tuple[int, int]:
        return self.analysis.shape

    def forward(self, x: Tensor) -> Tensor:
        return self.analysis.adjoint(x)

    def adjoint(self, z: Tensor) -> Tensor:
        return self.analysis.forward(z)


def fourier(count: int, generator: torch.Generator) -> tuple[Problem, Tensor]:
    mask = torch.rand(512, generator=generator) < 0.15
    A = MaskedFourier(mask)
    spikes = torch.randn(count, 512, generator=generator, dtype=F64)
    spikes = spikes * (torch.rand(count, 512, generator=generator) < 0.04)
    return zero_start(Problem(LeastSquares(A, noisy(A.forward(spikes), 0.01, generator)), L1(0.02)))


def total_variation(count: int, generator: torch.Generator) -> tuple[Problem, Tensor]:
    """The dual problem of denoising: min 1/2 |D'p - y|^2, |p_i| <= 0.1."""
    y = noisy(image(count, 24, generator), 0.1, generator)
    D = Difference((24, 24))
    rows = torch.arange(24 * 24).view(24, 24)
    down, right = D.shape[0] // 2, D.shape[0] // 2
    pairs = [[int(i) * 24 + int(j), down + int(i) * 23 + int(j)] for i in range(23) for j in range(23)]
    assert down + right == D.shape[0]
    assert rows.numel() == D.shape[1]
    return zero_start(Problem(LeastSquares(Synthesis(D), y), GroupBall(pairs, 0.1)))


def softmax(count: int, generator: torch.Generator) -> tuple[Problem, Tensor]:
    A = torch.randn(count, 150, 40, generator=generator, dtype=F64)
    truth = torch.randn(count, 40, 4, generator=generator, dtype=F64)
    y = (torch.bmm(A, truth) + torch.randn(count, 150, 4, generator=generator, dtype=F64)).argmax(2)
    return zero_start(Problem(Softmax(A, y, 4), L1(2.0)))


def zero_start(problem: Problem) -> tuple[Problem, Tensor]:
    return problem, torch.zeros(problem.batch, problem.n, dtype=F64)


def rows() -> Iterator[Row]:
    for kind in DENSE:
        optimizer = sp.load(f"sure/{KINDS[kind].family}").double()
        yield Row("dense", kind, "sure", optimizer, from_battery(KINDS[kind], False))
    classical = (("restarted FISTA", FISTA(restart=True)), ("local FISTA", LocalFISTA()))
    for name, optimizer in classical:
        for kind in OTHER_DENSE:
            yield Row("dense, other forms", kind, name, optimizer, from_battery(FORM_KINDS[kind], True))
        yield Row("softmax", "softmax", name, optimizer, softmax)
        for kind in OPERATORS:
            yield Row("operators", kind, name, optimizer, from_battery(FORM_KINDS[kind], True))
        for kind, sample in (("deblurring", deblurring), ("fourier", fourier), ("tv", total_variation)):
            yield Row("operators", kind, name, optimizer, sample)


@contextmanager
def counting() -> Iterator[list[int]]:
    """Collects how many points each product with an operator, or its adjoint, has; those inside another do not count."""
    sizes: list[int] = []
    depth = 0

    def counted(kind: type[Operator], name: str) -> Any:
        method = getattr(kind, name)

        def wrapped(self: Operator, x: Tensor, *rest: Any) -> Tensor:
            nonlocal depth
            if depth == 0:
                sizes.append(len(x))
            depth += 1
            try:
                result: Tensor = method(self, x, *rest)
                return result
            finally:
                depth -= 1

        return mock.patch.object(kind, name, wrapped)

    kinds = [kind for kind in subclasses(Operator) if kind.__name__ != "Repeated"]
    patches = [
        counted(kind, name)
        for kind in kinds
        for name in ("forward", "residual", "adjoint")
        if name in vars(kind) and not getattr(vars(kind)[name], "__isabstractmethod__", False)
    ]
    for patch in patches:
        patch.start()
    try:
        yield sizes
    finally:
        for patch in patches:
            patch.stop()


def subclasses(kind: type[Any]) -> list[type[Any]]:
    return [kind, *(deeper for child in kind.__subclasses__() for deeper in subclasses(child))]


def needed(problem: Problem, optimizer: Optimizer[Any], x0: Tensor, certify: bool | str) -> tuple[Tensor, Tensor]:
    """(iterations, pull_backs) of each instance to 1e-6."""
    with torch.no_grad():
        solution = sp.solve(problem, optimizer, x0, MOST, certify=certify, check_every=1, polish=False, engine="plain")
    lost = torch.full_like(solution.iterations, MOST)
    return torch.where(solution.converged, solution.iterations, lost), solution.pull_backs


def gradients(problem: Problem, optimizer: Optimizer[Any], x0: Tensor, steps: int) -> float:
    """Products with A and A' of that many steps of one instance, from the start, over two."""
    step_size = problem.step_size()
    with counting() as sizes, torch.no_grad():
        state = optimizer.init(problem, x0, step_size=step_size)
        for _ in sp.iterate(problem, optimizer, state, steps, engine="plain"):
            pass
    return sum(sizes) / 2


def gradient_ratios(row: Row, instances: int) -> dict[str, Any]:
    problem, x0 = row.sample(instances, torch.Generator().manual_seed(SEED))
    alone, _ = needed(problem, row.optimizer, x0, False)
    audited, given_up = needed(problem, row.optimizer, x0, "audit")
    ratios = []
    for i in range(problem.batch):
        if alone[i] < MOST:
            one, start = problem.select(torch.tensor([i])), x0[i : i + 1]
            free = gradients(one, row.optimizer, start, int(alone[i]))
            ratios.append(gradients(one, Audited(row.optimizer), start, int(audited[i])) / free)
    return {
        "iterations alone, median": float(alone.double().median()),
        "iterations audited, median": float(audited.double().median()),
        "given up": int((given_up > 0).sum()),
        "solved alone": len(ratios),
        "gradients, median ratio": round(statistics.median(ratios), 3) if ratios else None,
        "gradients, largest ratio": round(max(ratios), 3) if ratios else None,
    }


def second_ratios(row: Row, batch: int, rounds: int) -> dict[str, float]:
    problem, x0 = row.sample(batch, torch.Generator().manual_seed(SEED + 1))
    spent: dict[bool | str, list[float]] = {mode: [] for mode in MODES}
    for turn in range(rounds + 1):
        for mode in MODES:
            began = time.perf_counter()
            with torch.no_grad():
                sp.solve(problem, row.optimizer, x0, MOST, certify=mode, polish=False)
            if turn:  # the first one builds and warms up
                spent[mode].append(time.perf_counter() - began)
    middle = {mode: statistics.median(values) for mode, values in spent.items()}
    return {f"seconds, {NAMES[mode]} over alone": round(middle[mode] / middle[False], 3) for mode in MODES[1:]} | {
        "seconds, audit over tracks": round(middle["audit"] / middle[True], 3)
    }


class Lost(ISTA):
    """NaN."""

    def move(self, problem: Problem, state: Any, seen: Any) -> Any:
        after = super().move(problem, state, seen)
        return after.changed(x=torch.full_like(after.x, torch.nan))


def untrained(kind: type[Any], scale: float) -> Optimizer[Any]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        optimizer = kind(hidden=8).double()
    with torch.no_grad():
        for weight in optimizer.parameters():
            weight.mul_(scale)
    made: Optimizer[Any] = optimizer
    return made


def garbage(instances: int) -> dict[str, Any]:
    """Largest ratio of the gradients to 1e-6, audited, of optimizers that fail, to those of FISTA."""
    bad = {"NaN": Lost(), "l2o-pa untrained": untrained(L2OPA, 1.0), "l2o-pa untrained x 5": untrained(L2OPA, 5.0)}
    bad |= {"go-math-l2o untrained": untrained(GoMathL2O, 1.0), "go-math-l2o untrained x 5": untrained(GoMathL2O, 5.0)}
    found: dict[str, Any] = {}
    for kind in ("lasso", "lasso-start+10", "lasso-lam-0.01", "logistic", "logistic-lam-0.01", "logistic-ar-0.9"):
        problem, x0 = from_battery(KINDS[kind], False)(instances, torch.Generator().manual_seed(SEED))
        plain, restarted = (needed(problem, FISTA(restart=restart), x0, False)[0] for restart in (False, True))
        found[kind] = {"FISTA, median": float(plain.double().median())}
        found[kind]["restarted FISTA, median"] = float(restarted.double().median())
        for name, optimizer in bad.items():
            count, _ = needed(problem, optimizer, x0, "audit")
            spent = count + 1 + (count.double() / 8).log2().floor().clamp(min=0)  # one at the start, and the audits
            found[kind][name] = {
                "over FISTA, median": round(float((spent / plain).median()), 3),
                "over FISTA, largest": round(float((spent / plain).max()), 3),
                "over restarted FISTA, median": round(float((spent / restarted).median()), 3),
                "over restarted FISTA, largest": round(float((spent / restarted).max()), 3),
            }
        print(kind, found[kind], flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--instances", type=int, default=6)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    torch.set_num_threads(1)
    table: list[dict[str, Any]] = []
    for row in rows():
        if options.only and options.only not in f"{row.group} {row.kind} {row.name}":
            continue
        sp.solve.__globals__["prepare"](row.sample(1, torch.Generator().manual_seed(0))[0], row.optimizer)
        numbers = gradient_ratios(row, options.instances) | second_ratios(row, options.batch, options.rounds)
        table.append({"group": row.group, "kind": row.kind, "optimizer": row.name} | numbers)
        print(table[-1], flush=True)
    summary = {}
    for group in dict.fromkeys(line["group"] for line in table):
        lines = [line for line in table if line["group"] == group]
        names = [name for name in lines[0] if "ratio" in name or "seconds" in name]
        summary[group] = {
            name: round(statistics.median(line[name] for line in lines if line[name] is not None), 3) for name in names
        }
        print(group, summary[group], flush=True)
    if options.only:
        return
    path = write_record(
        "audit_cost",
        {
            "setting": vars(options) | {"tol": 1e-6, "dtype": "float64", "device": "cpu", "threads": 1},
            "median_over_kinds": summary,
            "kinds": table,
            "optimizers_that_fail": garbage(options.instances),
        },
    )
    print(path)


if __name__ == "__main__":
    main()
