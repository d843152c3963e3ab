"""The smooth case, r = 0: Lemma 1, Corollaries 1-3, Theorems 1 and 2.

x_k = x_{k-1} - N1 o g - N2, g = grad f(x_{k-1}). Primes mark the out-of-distribution run; s' is the difference of the
features, J_j s' = N_j(z') - N_j(z), D_k = |x'_k - x'*|. Assumption 1: N1(z) = 1/2L, N2(z) = g/2L in distribution.
e1 = N1(z) - 1/2L and e2 = N2(z) - g/2L are its residuals.
"""

import torch
from torch import Tensor

from sureprox.audit.result import Check, bound, dot, norm, sq
from sureprox.audit.trajectory import Constants, Pair, secant_constants

ROUNDING = 1e-12  # relative, for conditions that are tested for <= 0


def _residual(pair: Pair) -> Tensor:
    """e1 o g' + e2, the part of the step that Assumption 1 says is zero."""
    ind, ood, L = pair.ind, pair.ood, pair.column
    return (ind.N1 - 0.5 / L) * ood.grad + ind.N2 - ind.grad / (2 * L)


def lemma1(pair: Pair) -> Check:
    """If N1 = lam 1 with 0 <= lam <= 1/L and every entry of N2 is in [0, |g| cos(th)/L], th = angle(N2, g) <= pi/2,
    then F(x_k) - F(x_{k-1}) <= 0.                                                      FALSE for n >= 2

    Corrected: N1 any diagonal in [0, 1/L]^n and L |N2|^2 <= <g, N2>.
    Assumption-free: F(x_k) - F(x_{k-1}) <= (L/2)(|N1 o g + N2 - g/L|^2 - |g/L|^2).
    """
    run, L = pair.ood, pair.L
    lhs, scale = pair.gain()
    g, lam = run.grad, run.N1[..., 0]
    along = dot(run.N2, g)  # |g| cos(th) |N2|
    top = along / norm(run.N2).clamp(min=torch.finfo(torch.float64).tiny) / L
    equal = (run.N1 - lam.unsqueeze(-1)).abs().amax(-1) * L
    box = torch.stack([-run.N2.amin(-1), run.N2.amax(-1) - top, -along]).amax(0)
    range1 = torch.maximum(-run.N1.amin(-1), run.N1.amax(-1) - 1 / L) * L
    ball = L * sq(run.N2) - along
    small = ROUNDING * (1 + norm(g) / L)
    zero = torch.zeros_like(lhs)
    free = (L / 2) * sq(run.N1 * g + run.N2 - g / pair.column)
    return Check(
        "Lemma 1",
        lhs,
        scale,
        printed=bound(zero, applies=(equal <= ROUNDING) & (range1 <= ROUNDING) & (box <= small)),
        corrected=bound(zero, applies=(range1 <= ROUNDING) & (ball <= small * norm(g))),
        free=bound(free, -sq(g) / (2 * L)),
        hypotheses={"0 <= N1 <= 1/L": range1, "N1 = lam 1": equal, "N2 in the box": box, "L|N2|^2 <= <g, N2>": ball},
    )


def corollary1(pair: Pair) -> Check:
    """Under Assumption 1 the step is gradient descent and F(x_K) - F* <= L D_0^2 / 2K.   HOLDS

    The sharp constant is L D_0^2 / (4K + 2), which is what `corrected` holds.
    Assumption-free: Theorem 2 with 1/K, plus F(x_K) - min_k F(x_k).
    """
    return rate_check("Corollary 1", pair, smooth=True)


def rate_check(name: str, pair: Pair, smooth: bool) -> Check:
    run, L, K = pair.ood, pair.L, pair.ood.steps
    lhs = run.F[-1] - pair.target_value
    exact = _follows_gradient(pair)
    start = L * pair.distance[0].square()
    averaged = averaged_bound(pair)
    last = run.F[-1] - run.F[1:].min(0).values
    return Check(
        name,
        lhs,
        run.F[-1].abs() + pair.target_value.abs(),
        printed=bound(start / (2 * K), applies=exact <= ROUNDING),
        corrected=bound(start / (4 * K + 2 if smooth else 2 * K), applies=exact <= ROUNDING),
        free=bound(*averaged, last),
        hypotheses={"the step is (proximal) gradient descent": exact},
    )


def _follows_gradient(pair: Pair) -> Tensor:
    """(B,): largest L |d' - G'/L|, relative; zero where the run is (proximal) gradient descent with 1/L."""
    run, L = pair.ood, pair.column
    distance = (L * run.d - run.G).abs().amax((0, -1))
    return distance / (run.grad.abs() + run.gam.abs() + L * run.x[1:].abs()).amax((0, -1)).clamp(min=1)


def theorem1(pair: Pair) -> Check:
    """Under Assumption 1, with f' smooth with the same L,
    F'(x'_k) - F'(x'_{k-1}) <= -|g'|^2/2L + L |(J1 s') o g'|^2 + L |(g' - g)/2L - J2 s'|^2.   HOLDS

    Assumption-free: -|g'|^2/2L + (L/2) |N1(z') o g' + N2(z') - g'/L|^2.
    """
    ind, ood, L = pair.ind, pair.ood, pair.L
    lhs, scale = pair.gain()
    g = ood.grad
    descent = -sq(g) / (2 * L)
    first = L * sq(pair.dN(1) * g)
    second = L * sq((g - ind.grad) / (2 * pair.column) - pair.dN(2))
    free = (L / 2) * sq(ood.N1 * g + ood.N2 - g / pair.column)
    right = bound(descent, first, second)
    return Check("Theorem 1", lhs, scale, right, right, bound(descent, free), pair.hypotheses(smooth=True))


def corollary2(pair: Pair, constants: Constants | None = None) -> Check:
    """Under Assumption 1,
    F'(x'_k) - F'(x'_{k-1}) <= -|g'|^2/2L + |g' - g|^2/2L + n L (C1^2 |g'|^2 + 2 C2^2) |s'|^2.   HOLDS

    The factor n can be left out, which is what `corrected` does.
    Assumption-free: -|g'|^2/2L + (L/2)(|e1 o g' + e2 - (g' - g)/2L| + (C1 |g'| + C2) |s'|)^2.
    """
    C = constants or secant_constants(pair)
    ind, ood, L = pair.ind, pair.ood, pair.L
    lhs, scale = pair.gain()
    g, n = ood.grad, ood.grad.shape[-1]
    descent, change = -sq(g) / (2 * L), sq(g - ind.grad) / (2 * L)
    penalty = L * (C.C1.square() * sq(g) + 2 * C.C2.square()) * pair.shift.square()
    fixed = norm(_residual(pair) - (g - ind.grad) / (2 * pair.column))
    free = (L / 2) * (fixed + (C.C1 * norm(g) + C.C2) * pair.shift).square()
    return Check(
        "Corollary 2",
        lhs,
        scale,
        bound(descent, change, n * penalty),
        bound(descent, change, penalty),
        bound(descent, free),
        pair.hypotheses(smooth=True),
    )


def averaged_bound(pair: Pair) -> tuple[Tensor, ...]:
    """(L/2K)(D_0^2 - D_K^2) + (L/K) sum_k <x'_k - x'_{k-1} + G'/L, x'_k - x'*>, as terms; true for every run."""
    run, L, K = pair.ood, pair.L, pair.ood.steps
    D = pair.distance.square()
    inner = dot(-run.d + run.G / pair.column, run.x[1:] - pair.target)
    # one term for each step: they may cancel, and rounding is measured against their magnitudes
    return (L / (2 * K)) * D[0], -(L / (2 * K)) * D[-1], *((L / K) * inner).unbind(0)


def theorem2(pair: Pair) -> Check:
    """Under Assumption 1,
    min_k F'(x'_k) - F'* <= (L/2)(D_0^2 - D_K^2) + (L/K) sum_k <x'_k - x'*, x'_k - x'_{k-1} + g'/L>.   FALSE

    Corrected: (L/2K) in front of the bracket. It then needs no assumption and any point may stand for x'*.
    """
    lhs, scale = pair.best()
    first, last, *inner = averaged_bound(pair)
    K = pair.ood.steps
    right = bound(first, last, *inner)
    return Check(
        "Theorem 2",
        lhs,
        scale,
        bound(K * first, K * last, *inner),
        right,
        right,
        {name: value.amax(0) for name, value in pair.hypotheses(smooth=True).items()}
        | {"D_K <= D_0": pair.distance[-1] - pair.distance[0]},
    )


def corollary3(pair: Pair, constants: Constants | None = None) -> Check:
    """Under Assumption 1,
    min_k F'(x'_k) - F'* <= (L/2)(D_0^2 - D_K^2) + (1/2K) sum <g' - g, x'_k - x'*>
                            + (L sqrt(n)/K) sum (C1 |g'| + C2 |x'_k - x'*|) |s'|.   FALSE

    Corrected: (L/2K)(D_0^2 - D_K^2) + (1/2K) sum <g' - g, x'_k - x'*> + (L/K) sum (C1 |g'| + C2) |s'| |x'_k - x'*|.
    Assumption-free: the same, minus (L/K) sum <e1 o g' + e2, x'_k - x'*>.
    """
    C = constants or secant_constants(pair)
    ind, ood, L, K = pair.ind, pair.ood, pair.L, pair.ood.steps
    lhs, scale = pair.best()
    first, last, *_ = averaged_bound(pair)
    away, D = ood.x[1:] - pair.target, pair.distance[1:]
    n = away.shape[-1]
    change = (dot(ood.grad - ind.grad, away) / (2 * K)).unbind(0)
    g = norm(ood.grad)
    printed = (L * n**0.5 / K) * ((C.C1 * g + C.C2 * D) * pair.shift).sum(0)
    corrected = (L / K) * ((C.C1 * g + C.C2) * pair.shift * D).sum(0)
    residual = (-(L / K) * dot(_residual(pair), away)).unbind(0)
    return Check(
        "Corollary 3",
        lhs,
        scale,
        bound(K * first, K * last, *change, printed),
        bound(first, last, *change, corrected),
        bound(first, last, *change, corrected, *residual),
        {name: value.amax(0) for name, value in pair.hypotheses(smooth=True).items()},
    )
