"""The exact worst case of a schedule of proximal gradient steps with momentum, as a semidefinite program.

x_{i+1} = prox_{a_i r}(y_i - a_i grad f(y_i)), y_{i+1} = x_{i+1} + b_i (x_{i+1} - x_i), y_0 = x_0, L = 1: the largest
F(x_k) - F* over all convex f with 1-Lipschitz gradient, all convex r and all x_0 with |x_0 - x*| <= 1, in any dimension
(Drori and Teboulle 2014; Taylor, Hendrickx and Glineur 2017). Unknown are the Gram matrix G of x_0 - x*, grad f(x*),
the gradients and the subgradients, and the values v of f and r. They belong to such functions if and only if, for all
pairs,

    f_a >= f_b + <g_b, p_a - p_b> + |g_a - g_b|^2 / 2,    r_a >= r_b + <s_b, p_a - p_b>.

Multipliers of these inequalities prove a bound, by linear algebra alone: see `proved`.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Program:
    """max reached' v subject to <M_c, G> + values_c' v <= 0 for all c, G_00 <= 1, G positive semidefinite."""

    M: Array  # (constraints, d, d), symmetric
    values: Array  # (constraints, number of values)
    reached: Array


def program(steps: Sequence[float], momenta: Sequence[float]) -> Program:
    k = len(steps)
    # coordinates: x_0 - x*, grad f(x*), grad f(y_0), ..., grad f(y_{k-1}), grad f(x_k), s_1, ..., s_k
    unit = np.eye(2 * k + 3)
    start, optimal, g, s = unit[0], unit[1], unit[2 : k + 3], unit[k + 3 :]
    x, y, points = start, start, []
    for i in range(k):
        points.append(y)
        x_next = y - steps[i] * (g[i] + s[i])
        x, y = x_next, x_next + momenta[i] * (x_next - x)
        points.append(x)
    zero = 0 * start
    smooth = [(zero, optimal), *zip(points[::2], g[:k], strict=True), (x, g[k])]
    rough = [(zero, -optimal), *zip(points[1::2], s, strict=True)]
    M, values = [], []
    number = len(smooth) + len(rough) - 2  # the values at x* are 0
    for offset, family, curved in ((0, smooth, 0.5), (len(smooth) - 1, rough, 0.0)):
        for a, b in itertools.permutations(range(len(family)), 2):
            (p_a, g_a), (p_b, g_b) = family[a], family[b]
            outer = np.outer(g_b, p_a - p_b) + curved * np.outer(g_a - g_b, g_a - g_b)
            M.append((outer + outer.T) / 2)
            row = np.zeros(number)
            for index, sign in ((a, -1.0), (b, 1.0)):
                if index:
                    row[offset + index - 1] += sign
            values.append(row)
    reached = np.zeros(number)
    reached[len(smooth) - 2] = reached[-1] = 1
    return Program(np.stack(M), np.stack(values), reached)


def solved(task: Program) -> tuple[float, Array]:
    """The largest value and the multipliers; needs cvxpy and Clarabel, which sureprox does not depend on."""
    import cvxpy as cp

    d = task.M.shape[1]
    G, v = cp.Variable((d, d), PSD=True), cp.Variable(len(task.reached))
    # upper triangle: <M, G> = sum_{i <= j} (2 - [i = j]) M_ij G_ij
    rows, columns = np.triu_indices(d)
    weights = task.M[:, rows, columns] * np.where(rows == columns, 1.0, 2.0)
    entries = cp.vec(G, order="C")[rows * d + columns]
    pairs = weights @ entries + task.values @ v <= 0
    problem = cp.Problem(cp.Maximize(task.reached @ v), [pairs, G[0, 0] <= 1])
    problem.solve(solver=cp.CLARABEL)
    multipliers: Any = pairs.dual_value
    return float(problem.value), np.asarray(multipliers)


def proved(task: Program, multipliers: Array) -> tuple[float, float]:
    """(bound, smallest eigenvalue): what multipliers l >= 0 prove.

    If sum_c l_c values_c = reached and S = sum_c l_c M_c + bound e_0 e_0' is positive semidefinite, then reached' v <=
    <S, G> + reached' v - (what is >= 0) <= bound. The small ones are set to zero, the others moved until the equation
    holds; the bound makes the Schur complement of S zero, and the smallest eigenvalue of the rest, which should not be
    negative, is what rounding has left.
    """
    kept = multipliers > 1e-7 * multipliers.max()
    part = task.values[kept]
    loose = multipliers[kept] + np.linalg.lstsq(part.T, task.reached - part.T @ multipliers[kept], rcond=None)[0]
    if (loose < 0).any() or np.abs(part.T @ loose - task.reached).max() > 1e-12:
        return float("inf"), float("-inf")
    S = np.tensordot(loose, task.M[kept], 1)
    rest, column = S[1:, 1:], S[1:, 0]
    bound = float(column @ np.linalg.pinv(rest, rcond=1e-9, hermitian=True) @ column - S[0, 0])
    S[0, 0] += bound
    return bound, float(np.linalg.eigvalsh(S)[0])


def fista(k: int) -> tuple[list[float], list[float]]:
    """Its steps and momenta."""
    t, momenta = 1.0, []
    for _ in range(k):
        following = (1 + (1 + 4 * t * t) ** 0.5) / 2
        momenta.append((t - 1) / following)
        t = following
    return [1.0] * k, momenta


def linear_case(steps: Sequence[float], momenta: Sequence[float]) -> float:
    """F(x_k) on f = 0, r(x) = c |x|, x_0 = 1, for the worst c: 1/(4 S), S the way made after k steps of slope 1."""
    way = ahead = 0.0
    for a, b in zip(steps, momenta, strict=True):
        before, way = way, ahead + a
        ahead = way + b * (way - before)
    return 1 / (4 * way)
