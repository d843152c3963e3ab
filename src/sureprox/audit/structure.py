"""Statements that are not one inequality along a run: Theorem 3, Lemma 4, the prox, the L and the b of the paper."""

import torch
from torch import Tensor

from sureprox.audit.result import Check, bound
from sureprox.problems import Problem
from sureprox.problems.separable import soft_threshold


def _compare(name: str, error: Tensor, corrected: Tensor, scale: Tensor, **hypotheses: Tensor) -> Check:
    """A claimed identity as |difference| <= 0: left sides are the differences, as printed and as corrected."""
    right = bound(torch.zeros_like(error), lhs=corrected)
    return Check(
        name,
        error,
        scale,
        printed=bound(torch.zeros_like(error)),
        corrected=right,
        free=right,
        hypotheses=hypotheses,
    )


def theorem3(problem: Problem, x: Tensor, R: Tensor, pull: Tensor) -> Check:
    """The unique solution of x_k = x - R (grad f(x) + gam) - pull, gam in dr(x_k), pull = Q v + b_1, is
    argmin_u r(u) + |u - c|^2_{R^-1} / 2 with centre c.   FALSE as printed

    Printed centre: R grad f(x) + Q v + b_1 (signs included, x_{k-1} missing: |u - R grad f - Q v - b_1|).
    Corrected: x - R grad f(x) - Q v - b_1. Compared: the distance of the minimiser from solving the equation.
    """
    g = problem.grad(x)

    def equation(centre: Tensor) -> Tensor:
        u = problem.prox(centre, R)
        raw = (x - R * g - pull - u) / R
        low, high = problem.subdiff(u)
        return (R * (raw - raw.clamp(low, high))).abs().amax(1)

    scale = 1 + x.abs().amax(1) + (R * g).abs().amax(1) + pull.abs().amax(1)
    return _compare("Theorem 3", equation(R * g + pull), equation(x - R * g - pull), scale)


def lemma4(matrix: Tensor, x: Tensor, y: Tensor) -> Check:
    """Whatever produces the Jacobian blocks of an update d must read all arguments of d.   FALSE

    For the linear d(x) = M x the Jacobian is the same at all points: no argument needs to be read. Compared: the
    largest change of the Jacobian between x and y; the claim wants it to differ from zero wherever x and y differ.
    """

    def jacobian(at: Tensor) -> Tensor:
        found: Tensor = torch.func.jacrev(lambda point: matrix @ point)(at)
        return found

    change = (jacobian(x) - jacobian(y)).abs().amax().reshape(1)
    needed = torch.minimum((x - y).abs().amax(), torch.ones((), dtype=x.dtype)).reshape(1)
    right = bound(change, lhs=torch.zeros_like(change))
    return Check("Lemma 4", needed, torch.ones_like(needed), printed=bound(change), corrected=right, free=right)


def printed_prox(v: Tensor, step: Tensor, lam: float, t: float | Tensor) -> Tensor:
    """The paper's formula: -t + sign(v) max(0, |v| - lam p + sign(v) t)."""
    sign = torch.sign(v)
    return -t + sign * torch.clamp(v.abs() - lam * step + sign * t, min=0)


def exact_prox(v: Tensor, step: Tensor, lam: float, t: float | Tensor) -> Tensor:
    """argmin_x lam |x + t| + (x - v)^2 / 2p = -t + sign(v + t) max(0, |v + t| - lam p)."""
    return -t + soft_threshold(v + t, lam * step)


def prox(v: Tensor, step: Tensor, lam: float, t: float | Tensor) -> Check:
    """prox of lam |x + t| is -t + sign(v) max(0, |v| - lam p + sign(v) t).   FALSE

    It differs from the exact one where, and only where, v and v + t have different signs and |v + t| > lam p; it then
    returns -t, and the subgradient it implies is larger than lam. Corrected: -t + sign(v + t) max(0, |v + t| - lam p).
    Compared: how far each is from satisfying gam = (v - x)/p in dr(x).
    """
    exact, printed = exact_prox(v, step, lam, t), printed_prox(v, step, lam, t)
    wrong = (torch.sign(v) != torch.sign(v + t)) & ((v + t).abs() > lam * step)
    differs = (printed - exact).abs() > 1e-12 * (1 + v.abs() + torch.as_tensor(t).abs())
    excess = ((v - printed) / step).abs() - lam
    return _compare(
        "OOD prox",
        (printed - exact).abs(),
        torch.zeros_like(v),
        1 + v.abs() + torch.as_tensor(t, dtype=v.dtype).abs(),
        **{"differs elsewhere than said": (differs != wrong).to(v.dtype), "|gam| <= lam": excess},
    )


def lasso_smoothness(A: Tensor) -> Check:
    """The gradient of |Ax - b|^2 / 2 has Lipschitz constant L = |A|_2.   FALSE

    Corrected: L = |A|_2^2. Compared: f after and before a gradient step of length 1/L from the top singular vector,
    b = 0; with the printed L the step is too long as soon as |A|_2 > 2.
    """
    size = torch.linalg.matrix_norm(A, ord=2)
    top = torch.linalg.svd(A).Vh[..., 0, :]

    def f(x: Tensor) -> Tensor:
        return torch.einsum("...mn,...n->...m", A, x).square().sum(-1) / 2

    def after(L: Tensor) -> Tensor:
        gradient = torch.einsum("...mn,...m->...n", A, torch.einsum("...mn,...n->...m", A, top))
        return f(top - gradient / L.unsqueeze(-1))

    start, lhs = f(top), after(size)
    right = bound(start, lhs=after(size.square()))
    return Check("L for LASSO", lhs, lhs.abs(), printed=bound(start), corrected=right, free=right)


def size_of_b(A: Tensor, b: Tensor) -> Check:
    """b has as many entries as A has columns ("b in R^500").   FALSE; b = A x has as many as A has rows."""
    rows, columns, entries = (torch.tensor([float(k)], dtype=torch.float64) for k in (*A.shape[-2:], b.shape[-1]))
    return _compare("Size of b", (entries - columns).abs(), (entries - rows).abs(), 1 + columns)
