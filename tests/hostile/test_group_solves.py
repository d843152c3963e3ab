"""Random solves with penalties of groups: each "converged" is proved again by a dual point in long double."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from random_options import Options, random_options, solved
from random_problems import _matrices, _ratios, _right

import sureprox as sp
from hardening import count
from sureprox.problems import GroupBall, GroupL2, LeastSquares, Problem, SparseGroup

LD = np.longdouble
EPS = float(np.finfo(np.float64).eps)
CASES = count(reduced=32, full=1_000)
PARTS = 2


@dataclass(frozen=True)
class Groups:
    """1/2 |A x - b|^2 + l1 |x|_1 + sum_g w_g |x_g|, or with |x_g| <= w_g in place of the penalty."""

    A: np.ndarray  # (m, n)
    b: np.ndarray
    l1: LD
    members: list[np.ndarray]
    w: np.ndarray  # (G,)
    ball: bool

    def value(self, x: np.ndarray) -> LD:
        r = self.A @ x - self.b
        norms = self.norms(x)
        if self.ball:
            return r @ r / 2 if (norms <= self.w * (1 + 64 * LD(EPS))).all() else LD(np.inf)
        return r @ r / 2 + self.l1 * np.abs(x).sum() + self.w @ norms

    def norms(self, v: np.ndarray) -> np.ndarray:
        return np.array([np.sqrt((v[g] ** 2).sum()) for g in self.members])

    def gap(self, x: np.ndarray) -> LD:
        """F(x) - D(s r), D(u) = -|u|^2/2 - b'u - r*(-A'u), r = A x - b and the best s >= 0 that is allowed."""
        r = self.A @ x - self.b
        if not r @ r > 0:
            return self.value(x)
        pull = self.A.T @ r
        linear, most = -(self.b @ r), LD(np.inf)
        if self.ball:
            linear -= self.w @ self.norms(pull)
        else:
            most = self._largest(pull)
        s = min(max(linear / (r @ r), LD(0)), most)
        return self.value(x) - (s * linear - s * s * (r @ r) / 2)

    def _largest(self, pull: np.ndarray) -> LD:
        """The largest s with |S(s pull_g, l1)| <= w_g for every group and |s pull_j| <= l1 outside of them."""
        if not pull.any():
            return LD(np.inf)
        inside = np.zeros(len(pull), bool)
        for g in self.members:
            inside[g] = True
        alone = np.abs(pull[~inside]).max(initial=LD(0))
        low, high = LD(0), LD(2) * (self.w.max(initial=LD(0)) + self.l1 * len(pull)) / np.abs(pull).max()
        high = min(high, self.l1 / alone) if alone > 0 else high
        for _ in range(200):
            s = (low + high) / 2
            cut = np.maximum(np.abs(s * pull) - self.l1, 0)
            low, high = (s, high) if (self.norms(cut) <= self.w).all() else (low, s)
        return low

    def rounding(self, x: np.ndarray) -> float:
        """Of F and of a gap in float64."""
        sums = np.abs(self.A) @ np.abs(x) + np.abs(self.b)
        return float(4 * (sum(self.A.shape) + 4) * EPS * (np.abs(self.A @ x - self.b) @ sums + self.value(x)))


def case(number: int) -> tuple[Problem, list[Groups], Options]:
    chance = np.random.default_rng([6, number])
    m, n, B = (round(most ** chance.random()) for most in (40, 60, 12))
    dtype = chance.choice([np.float32, np.float64])
    shared = bool(chance.random() < 0.3)
    A, _ = _matrices(chance, 1 if shared else B, m, n)
    A = A.astype(dtype)
    b = _right(chance, np.broadcast_to(A, (B, m, n))).astype(dtype)
    kind = str(chance.choice(["groups", "sparse groups", "balls"]))
    labels = np.unique(chance.integers(0, chance.integers(1, n + 1), n), return_inverse=True)[1]
    if kind == "sparse groups":
        labels = _numbered(np.where(chance.random(n) < 0.2, -1, labels))
    members = [np.flatnonzero(labels == g) for g in range(labels.max() + 1)]
    weights = (10 ** chance.uniform(-1, 1, len(members))).astype(dtype)
    full = np.broadcast_to(A, (B, m, n)).astype(LD)
    steep = np.abs(np.einsum("bmn,bm->bn", full, b.astype(LD))).max(1) + LD(1e-30)
    ratio = np.maximum(_ratios(chance, B), 1e-12)
    lam = (ratio * (np.abs(b).max(1) / (1e-30 + np.abs(full).max((1, 2))) if kind == "balls" else steep)).astype(dtype)
    l1 = (lam * chance.choice([0.1, 1.0])).astype(dtype) if kind == "sparse groups" else np.zeros(B, dtype)
    lam_, w_ = torch.from_numpy(lam), torch.from_numpy(weights)
    made: dict[str, Any] = {
        "groups": lambda: GroupL2(labels, lam_, w_),
        "sparse groups": lambda: SparseGroup(labels, torch.from_numpy(l1), lam_, w_),
        "balls": lambda: GroupBall(labels, lam_, w_),
    }
    given = torch.from_numpy(A[0] if shared else A)
    problem = Problem(LeastSquares(given, torch.from_numpy(b)), made[kind]())
    exact = [
        Groups(full[i], b[i].astype(LD), LD(l1[i]), members, LD(lam[i]) * weights.astype(LD), kind == "balls")
        for i in range(B)
    ]
    return problem, exact, random_options(chance, problem)


def _numbered(labels: np.ndarray) -> np.ndarray:
    """The groups that are left, numbered from 0; one at least."""
    labels[0] = max(labels[0], 0)
    return np.unique(np.append(labels, -1), return_inverse=True)[1][:-1] - 1


@pytest.mark.parametrize("part", range(PARTS))
def test_no_solve_with_groups_claims_what_is_not_so(part, record_property):
    solves = claims = refused = 0
    for number in range(part, CASES, PARTS):
        problem, exact, options = case(number)
        try:
            found, warned = solved(problem, options)
        except sp.InputError as error:  # from an optimizer that needs the subdifferential of each coordinate
            refused += "FISTA" not in str(error)
            continue
        assert warned != bool(found.converged.all()), f"case {number}: {options.text}"
        floor = options.arguments.get("floor", options.arguments["tol"])
        for i, of in enumerate(exact):
            solves += 1
            x = found.x[i].detach().double().numpy().astype(LD)
            where = f"case {number}, instance {i}: {options.text}"
            assert np.isfinite(x.astype(float)).all(), where
            value = of.value(x)
            if np.isinf(value):  # an optimizer without a guarantee may leave the balls
                assert found.status[i] != "converged", where
                continue
            slack = of.rounding(x)
            assert abs(float(found.objective[i]) - value) <= slack, where
            if found.status[i] == "converged":
                claims += 1
                gap = of.gap(x)
                promised = options.arguments["tol"] * max(value - gap, floor * of.value(np.zeros_like(x)))
                assert gap <= promised * (1 + 1e-6) + slack, where
    record_property("hardening", f"{solves:,} random solves with groups: {claims:,} said to be converged, all proved")
    assert refused == 0
    assert claims > 0.1 * solves > 0


def test_the_gap_of_the_judge_vanishes_at_a_solution_and_nowhere_else():
    """A = 1: the solution of a group is b_g (1 - w / |b_g|), or w b_g / |b_g| in a ball."""
    b = np.array([3.0, 4.0, 0.1, -0.2], LD)
    members, w = [np.array([0, 1]), np.array([2, 3])], np.array([1.0, 1.0], LD)
    for ball, x in ((False, [2.4, 3.2, 0, 0]), (True, [0.6, 0.8, 0.1, -0.2])):
        of = Groups(np.eye(4, dtype=LD), b, LD(0), members, w, ball)
        best = np.array(x, LD)
        assert 0 <= of.gap(best) + 1e-15 <= 1e-14
        assert of.gap(0.9 * best) >= of.value(0.9 * best) - of.value(best) > 1e-3
