"""scikit-learn and celer, one problem after the other, on the CPU in float64."""

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from sureprox.advice.solvers import OutOfTimeError
from sureprox.problems import L1, LeastSquares, Logistic, Problem

Numbers = npt.NDArray[np.float64]
LOOSEST, TIGHTEST = 100.0, 1e-6  # times tol: between these a tolerance is sought that gives the gap asked for
WORK = 4e9  # entries of A that one call may visit: bounds its time to some seconds


@dataclass(frozen=True)
class Prepared:
    """One matrix (column by column, as coordinate descent reads it), right-hand side and lam for each problem."""

    problem: Problem
    matrices: list[Numbers]  # a single one if it is shared
    targets: Numbers
    lam: Numbers

    def matrix(self, i: int) -> Numbers:
        return self.matrices[i if len(self.matrices) > 1 else 0]


class External:
    """An estimator of another package.

    `make(lam, m, tol, most)`: the estimator for one problem; `shown`: how the user would write it, with {tol}.
    `gram`: A'A is computed once for a shared A and handed on.
    """

    batched = False

    def __init__(self, name: str, make: Callable[..., Any], shown: str, tol: float, *, gram: bool = False) -> None:
        self.name = name
        self.make = make
        self.shown = shown
        self.gram = gram
        self.tol = LOOSEST * tol
        self.tightest = TIGHTEST * tol

    @property
    def call(self) -> str:
        return self.shown.format(tol=f"{self.tol:.0e}")

    def prepare(self, problem: Problem) -> Prepared:
        f, r = problem.f, problem.r
        assert isinstance(f, LeastSquares | Logistic)
        assert isinstance(r, L1)
        A = f.A.detach().cpu().double().numpy()
        target = f.b if isinstance(f, LeastSquares) else f.y
        return Prepared(
            problem,
            [np.asfortranarray(one) for one in (A if A.ndim == 3 else A[None])],
            target.detach().cpu().double().numpy(),
            r.lam.detach().cpu().double().expand(problem.batch).numpy(),
        )

    def run(self, prepared: Prepared, deadline: float) -> Tensor:
        found = []
        extra = {"precompute": prepared.matrix(0).T @ prepared.matrix(0)} if self.gram else {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # whether it has converged is measured, not believed
            for i, (target, lam) in enumerate(zip(prepared.targets, prepared.lam, strict=True)):
                if time.perf_counter() > deadline:
                    raise OutOfTimeError
                A = prepared.matrix(i)
                most = int(min(max(WORK / A.size, 100), 1e6))
                model = self.make(lam, len(A), self.tol, most, **extra).fit(A, target)
                found.append(np.asarray(model.coef_, dtype=np.float64).ravel())
        problem = prepared.problem
        x = torch.from_numpy(np.stack(found)).to(device=problem.device)
        return x if problem.shift is None else x - problem.shift.double()

    def tighten(self) -> bool:
        self.tol /= 10
        return self.tol >= 0.99 * self.tightest


def externals(problem: Problem, tol: float) -> tuple[list[External], dict[str, str]]:
    """Those that are installed and solve this kind of problem; the others with the reason why not."""
    if type(problem.f) not in (LeastSquares, Logistic) or type(problem.r) is not L1:
        return [], {"scikit-learn": "solves other problems than this one"}
    if bool((problem.r.lam <= 0).any()):
        return [], {"scikit-learn": "lam is 0, which coordinate descent is not made for"}
    if isinstance(problem.f, Logistic) and bool((problem.f.y.amax(1) == problem.f.y.amin(1)).any()):
        return [], {"scikit-learn": "some problem has labels of one class only"}
    found: list[External] = []
    missing: dict[str, str] = {}
    for package, add in (("scikit-learn", _scikit_learn), ("celer", _celer)):
        try:
            found += add(problem, tol)
        except ImportError:
            missing[package] = f"not installed; pip install {package}"
    return found, missing


def _scikit_learn(problem: Problem, tol: float) -> list[External]:
    from sklearn.linear_model import Lasso, LogisticRegression

    if isinstance(problem.f, LeastSquares):
        text = "sklearn.linear_model.Lasso(alpha=lam / m, fit_intercept=False, tol={tol}%s).fit(A, b)"

        def lasso(lam: float, m: int, tol: float, most: int, **extra: Any) -> Any:
            return Lasso(alpha=lam / m, fit_intercept=False, tol=tol, max_iter=most, **extra)

        found = [External("scikit-learn Lasso", lasso, text % "", tol)]
        if problem.f.A.ndim == 2 and problem.batch > 1:
            found.append(
                External("scikit-learn Lasso, A'A shared", lasso, text % ", precompute=A.T @ A", tol, gram=True)
            )
        return found
    new = tuple(int(part) for part in version("scikit-learn").split(".")[:2]) >= (1, 8)
    l1: dict[str, Any] = {"l1_ratio": 1} if new else {"penalty": "l1"}
    shown = ", ".join(f"{key}={value!r}" for key, value in l1.items())

    def logistic(solver: str) -> External:
        def make(lam: float, m: int, tol: float, most: int) -> Any:
            C = 1 / (lam * m)
            return LogisticRegression(C=C, solver=solver, fit_intercept=False, tol=tol, max_iter=most, **l1)

        text = f"sklearn.linear_model.LogisticRegression(C=1 / (lam * m), {shown}, solver={solver!r}"
        return External(f"scikit-learn {solver}", make, text + ", fit_intercept=False, tol={tol}).fit(A, y)", tol)

    return [logistic("liblinear"), logistic("saga")]


def _celer(problem: Problem, tol: float) -> list[External]:
    import celer

    if isinstance(problem.f, LeastSquares):

        def lasso(lam: float, m: int, tol: float, most: int) -> Any:
            return celer.Lasso(alpha=lam / m, fit_intercept=False, tol=tol)

        return [External("celer", lasso, "celer.Lasso(alpha=lam / m, fit_intercept=False, tol={tol}).fit(A, b)", tol)]

    def logistic(lam: float, m: int, tol: float, most: int) -> Any:
        return celer.LogisticRegression(C=1 / (lam * m), fit_intercept=False, tol=tol)

    text = "celer.LogisticRegression(C=1 / (lam * m), fit_intercept=False, tol={tol}).fit(A, y)"
    return [External("celer", logistic, text, tol)]
