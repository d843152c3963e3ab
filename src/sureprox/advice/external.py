"""Estimators of other packages, one problem after the other, on the CPU in float64."""

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sureprox.advice.solvers import OutOfTimeError
from sureprox.problems import Problem
from sureprox.problems.question import Numbers, matrices, question

LOOSEST, TIGHTEST = 100.0, 1e-6  # times tol: between these a tolerance is sought that gives the gap asked for
WORK = 4e9  # entries of A that one call may visit: bounds its time to some seconds


@dataclass(frozen=True)
class Case:
    """The numbers of one problem, as an estimator needs them."""

    sizes: Mapping[str, Any]  # l1, l2, low, high, lam: of the penalty
    m: int
    n: int
    tol: float
    most: int  # iterations

    @property
    def l1(self) -> float:
        return float(self.sizes["l1"])

    @property
    def l2(self) -> float:
        return float(self.sizes["l2"])

    @property
    def both(self) -> float:
        return self.l1 + self.l2

    @property
    def share(self) -> float:
        """Of l1 in both."""
        return self.l1 / self.both


@dataclass(frozen=True)
class Prepared:
    """One matrix (column by column, as coordinate descent reads it), right-hand side and numbers for each problem."""

    problem: Problem
    matrices: list[Any]  # a single one if it is shared; sparse ones are SciPy's
    targets: Numbers
    sizes: Mapping[str, Numbers]  # (B,) or (B, n) each

    def matrix(self, i: int) -> Any:
        return self.matrices[i if len(self.matrices) > 1 else 0]


class External:
    """An estimator of another package.

    `make(case)`: the estimator for one problem, with a method fit(A, target) that returns what has `coef_`; `shown`:
    how the user would write it, with {tol}; where that is absent there is nothing to tighten. `gram`: A'A is computed
    once for a shared A and handed on.
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
        return self.shown.replace("{tol}", f"{self.tol:.0e}")

    def prepare(self, problem: Problem) -> Prepared:
        asked = question(problem)
        assert asked is not None
        sizes = {name: _numpy(size) for name, size in asked.sizes.items()}
        return Prepared(problem, matrices(asked.A), _numpy(asked.target), sizes)

    def run(self, prepared: Prepared, deadline: float) -> Tensor:
        found = []
        extra = {"precompute": prepared.matrix(0).T @ prepared.matrix(0)} if self.gram else {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # whether it has converged is measured, not believed
            for i, target in enumerate(prepared.targets):
                if time.perf_counter() > deadline:
                    raise OutOfTimeError
                A = prepared.matrix(i)
                most = int(min(max(WORK / A.size, 100), 1e6))
                sizes = {name: size[i] for name, size in prepared.sizes.items()}
                case = Case(sizes, A.shape[0], A.shape[1], self.tol, most)
                model = self.make(case, **extra).fit(A, target)
                found.append(np.asarray(model.coef_, dtype=np.float64).ravel())
        problem = prepared.problem
        x = torch.from_numpy(np.stack(found)).to(device=problem.device)
        return x if problem.shift is None else x - problem.shift.double()

    def tighten(self) -> bool:
        if "{tol}" not in self.shown:
            return False
        self.tol /= 10
        return self.tol >= 0.99 * self.tightest


def _numpy(value: Tensor) -> Numbers:
    return np.asarray(value.detach().cpu().double().numpy())
