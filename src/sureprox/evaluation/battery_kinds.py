"""The kinds of problem of the battery, each with its sampler, as data.

`trained` says whether Sure has seen the kind in training (with other seeds, sizes and ranges, see
`sureprox.sources.mixtures`); the others are kept out altogether.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

import torch
from torch import Tensor

from sureprox.problems import Problem, lasso, logistic
from sureprox.problems.smooth import LinearModel
from sureprox.sources import designs as make


class Draw(NamedTuple):
    """Problems, starting points, and where the data come from; float64 on the CPU."""

    problem: Problem
    start: Tensor
    origin: str


@dataclass(frozen=True)
class Kind:
    name: str
    family: str  # whose optimizers are run on it: "lasso" or "logistic"
    trained: bool
    sample: Callable[[int, torch.Generator], Draw] = field(repr=False)
    largest: int = 1024  # most instances at a time


@dataclass(frozen=True)
class LassoDesign:
    """A m x n with unit columns, b = A x_true + noise, start N(0, 1) + shift."""

    m: int = 250
    n: int = 500
    nonzeros: int = 50  # of x_true
    lam: float = 0.1
    ratio: float | None = None  # lam as a share of lam_max, instead of `lam`
    noise: float = 0.0  # standard deviation
    rho: float = 0.0  # correlation of neighbouring columns
    degrees: int = 0  # of freedom of Student's t for the entries; 0: normal
    spread: float = 1.0  # largest over smallest norm of a column
    shift: float = 0.0

    def __call__(self, count: int, generator: torch.Generator) -> Draw:
        shape = (count, self.m, self.n)
        A = make.student(generator, self.degrees, *shape) if self.degrees else make.normal(generator, *shape)
        A = make.unit_columns(make.autoregressive(A, self.rho) if self.rho else A)
        A = A * self.spread ** -make.uniform(generator, count, 1, self.n)
        signal = make.sparse_signal(generator, count, self.n, self.nonzeros)
        b = torch.bmm(A, signal.unsqueeze(2)).squeeze(2) + self.noise * make.normal(generator, count, self.m)
        lam = torch.full_like(b[:, 0], self.lam) if self.ratio is None else self.ratio * make.lasso_lam_max(A, b)
        return Draw(lasso(A, b, lam), make.normal(generator, count, self.n) + self.shift, repr(self))


@dataclass(frozen=True)
class LogisticDesign:
    """A m x n normal, y = 1[A x_true + noise + offset >= 0], start N(0, 1) + shift."""

    m: int = 1000
    n: int = 50
    nonzeros: int = 20
    lam: float = 0.1
    ratio: float | None = None
    noise: float = 0.0  # standard deviation, against |A x_true| of about sqrt(nonzeros)
    offset: float = 0.0  # moves the share of ones
    rho: float = 0.0
    shift: float = 0.0

    def __call__(self, count: int, generator: torch.Generator) -> Draw:
        A = make.normal(generator, count, self.m, self.n)
        A = make.autoregressive(A, self.rho) if self.rho else A
        signal = make.sparse_signal(generator, count, self.n, self.nonzeros)
        margin = torch.bmm(A, signal.unsqueeze(2)).squeeze(2) + self.noise * make.normal(generator, count, self.m)
        y = (margin + self.offset >= 0).double()
        lam = torch.full_like(y[:, 0], self.lam) if self.ratio is None else self.ratio * make.logistic_lam_max(A, y)
        return Draw(logistic(A, y, lam), make.normal(generator, count, self.n) + self.shift, repr(self))


def _path(A: Tensor, target: Tensor, family: str, origin: str, count: int, generator: torch.Generator) -> Draw:
    """One data set, `count` values of lam between 0.01 and 0.5 of lam_max, each with a start of its own."""
    build, largest = (lasso, make.lasso_lam_max) if family == "lasso" else (logistic, make.logistic_lam_max)
    shares = 10 ** (-2 + (2 + torch.log10(torch.tensor(0.5))) * make.uniform(generator, count))
    problem = build(A, target, (shares * largest(A, target.unsqueeze(0))))
    return Draw(problem, make.normal(generator, count, A.shape[1]), origin)


def _patches(count: int, generator: torch.Generator) -> Draw:
    """Image patches in a learned dictionary; those of one colour, whose F* is 0, are left out."""
    found = import_module("sureprox.sources.real").patches()
    rows = (found.problem.f.b.abs().amax(1) > 0).nonzero()[:, 0]
    problem = found.problem.select(rows[torch.arange(min(count, len(rows))) * len(rows) // min(count, len(rows))])
    return Draw(problem, make.normal(generator, problem.batch, problem.n), f"{found.name}: {found.source}")


def _diabetes(count: int, generator: torch.Generator) -> Draw:
    """scikit-learn's diabetes: 442 patients, all products of two of the ten features, standardised."""
    from sklearn.datasets import load_diabetes
    from sklearn.preprocessing import PolynomialFeatures

    raw, target = load_diabetes(return_X_y=True)
    A = _standardised(torch.from_numpy(PolynomialFeatures(2, include_bias=False).fit_transform(raw)))
    b = torch.from_numpy(target)
    return _path(A, b - b.mean(), "lasso", "diabetes, from scikit-learn, degree 2", count, generator)


def _breast_cancer(count: int, generator: torch.Generator) -> Draw:
    from sklearn.datasets import load_breast_cancer

    raw, target = load_breast_cancer(return_X_y=True)
    A = _standardised(torch.from_numpy(raw))
    y = torch.from_numpy(target).double()
    return _path(A, y, "logistic", "breast cancer, from scikit-learn", count, generator)


def _table(name: str, count: int, generator: torch.Generator) -> Draw:
    """Ionosphere or Spambase, standardised."""
    found: Any = getattr(import_module("sureprox.sources.real"), name)()
    f = found.problem.f
    assert isinstance(f, LinearModel)
    assert isinstance(f.A, Tensor)
    A = f.A.reshape(f.A.shape[-2:])
    return _path(A, found.problem.f.y[0], "logistic", f"{found.name}: {found.source}", count, generator)


def _standardised(A: Tensor) -> Tensor:
    return (A - A.mean(0)) / A.std(0, correction=0)


LASSO = (
    Kind("lasso", "lasso", True, LassoDesign()),
    *(Kind(f"lasso-start{s:+d}", "lasso", True, LassoDesign(shift=s)) for s in (10, -10, 100, -100)),
    Kind("lasso-start+1000", "lasso", False, LassoDesign(shift=1000)),
    *(Kind(f"lasso-lam-{ratio}", "lasso", True, LassoDesign(ratio=ratio)) for ratio in (0.01, 0.05, 0.2)),
    *(Kind(f"lasso-lam-{ratio}", "lasso", False, LassoDesign(ratio=ratio)) for ratio in (0.5, 0.9)),
    Kind("lasso-noise", "lasso", True, LassoDesign(noise=0.5)),
    *(Kind(f"lasso-ar-{rho}", "lasso", True, LassoDesign(rho=rho)) for rho in (0.5, 0.9)),
    Kind("lasso-ar-0.99", "lasso", False, LassoDesign(rho=0.99)),
    Kind("lasso-heavy-tails", "lasso", False, LassoDesign(degrees=2)),
    Kind("lasso-column-norms", "lasso", False, LassoDesign(ratio=0.02, spread=100.0)),
    Kind("lasso-64x128", "lasso", True, LassoDesign(m=64, n=128, nonzeros=13)),
    Kind("lasso-500x2000", "lasso", True, LassoDesign(m=500, n=2000, nonzeros=200), largest=64),
    Kind("lasso-2000x500", "lasso", True, LassoDesign(m=2000, n=500, nonzeros=50), largest=64),
    Kind("lasso-dense", "lasso", False, LassoDesign(m=500, n=400, nonzeros=360, ratio=0.01)),
    Kind("lasso-sparse", "lasso", True, LassoDesign(nonzeros=3)),
    Kind("patches", "lasso", False, _patches),
    Kind("diabetes", "lasso", False, _diabetes),
)
LOGISTIC = (
    Kind("logistic", "logistic", True, LogisticDesign()),
    *(Kind(f"logistic-start{s:+d}", "logistic", True, LogisticDesign(shift=s)) for s in (10, -10)),
    Kind("logistic-start+100", "logistic", False, LogisticDesign(shift=100)),
    *(Kind(f"logistic-lam-{ratio}", "logistic", True, LogisticDesign(ratio=ratio)) for ratio in (0.01, 0.1)),
    Kind("logistic-lam-0.5", "logistic", True, LogisticDesign(ratio=0.5)),
    Kind("logistic-ar-0.9", "logistic", True, LogisticDesign(rho=0.9, ratio=0.05)),
    Kind("logistic-imbalanced", "logistic", True, LogisticDesign(noise=2.0, offset=-8.0, ratio=0.05)),
    Kind("logistic-separable", "logistic", False, LogisticDesign(m=100, n=200, ratio=0.02)),
    Kind("ionosphere", "logistic", False, partial(_table, "ionosphere")),
    Kind("spambase", "logistic", False, partial(_table, "spambase"), largest=256),
    Kind("breast-cancer", "logistic", False, _breast_cancer),
)
KINDS = {kind.name: kind for kind in (*LASSO, *LOGISTIC)}
