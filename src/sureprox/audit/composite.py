"""The composite case, F = f + r: Lemmas 2 and 3, Corollaries 4-6, Theorems 4 and 5.

x_k = prox_{r,N1}(x_{k-1} - N1 o g - N2), g = grad f(x_{k-1}), so x_k = x_{k-1} - N1 o G - N2 with G = g + gam_k and
gam_k in dr(x_k). Primes, s', J_j s' and D_k as in the smooth case. Assumption 2: N1(z) = 1/L, N2(z) = 0 in
distribution; e1 = N1(z) - 1/L, e2 = N2(z) are its residuals. Steps with a history N3 o P count it as a part of N2.
"""

import torch
from torch import Tensor

from sureprox.audit.result import Bound, Check, bound, dot, norm, sq
from sureprox.audit.smooth import ROUNDING, averaged_bound, rate_check
from sureprox.audit.trajectory import Constants, Pair, secant_constants


def basic_bound(pair: Pair, name: str, at: Tensor | None = None) -> Check:
    """(M): F(x_k) <= F(t) + <G, x_{k-1} - t> + (L/2)(|d - G/L|^2 - |G/L|^2), d = x_{k-1} - x_k, for every t."""
    run, L = pair.ood, pair.L
    t = pair.target if at is None else at
    value = pair.problem_ood.objective(t)
    d = run.N1 * run.G + run.N2 + run.N3 * run.P
    right = bound(
        value.expand_as(run.F[1:]),
        dot(run.G, run.x[:-1] - t),
        (L / 2) * sq(d - run.G / pair.column),
        -sq(run.G) / (2 * L),
    )
    inner = norm(run.G) * norm(run.x[:-1] - t)  # what the inner product may cancel from
    hypotheses = pair.hypotheses()
    kept = {key: hypotheses[key] for key in ("N1(z') > 0", "L' <= L", "gam' in dr'(x'_k)", "d' = N1 G' + N2 + N3 P'")}
    return Check(name, run.F[1:], run.F[1:].abs() + inner, right, right, right, kept)


def lemma2(pair: Pair, at: Tensor | None = None) -> Check:
    """F(x_k) <= F(t) + <G, x_{k-1} - t> + (L/2)(|N1 o G + N2 - G/L|^2 - |G/L|^2) for every t.   HOLDS

    No assumption enters; N1 > 0 is needed for the prox to exist.
    """
    return basic_bound(pair, "Lemma 2", at)


def descent_condition(pair: Pair, name: str) -> Check:
    """If 0 < N1 <= 2/L and |N1 o G + N2 + N3 o P - G/L| <= |G|/L, then F(x_k) - F(x_{k-1}) <= 0."""
    run, L = pair.ood, pair.L
    lhs, scale = pair.gain()
    d = run.N1 * run.G + run.N2 + run.N3 * run.P
    off, size = norm(d - run.G / pair.column), norm(run.G) / L
    positive = -run.N1.amin(-1) * L
    range1 = torch.maximum(positive, run.N1.amax(-1) * L - 2)
    ball = (off - size) * L
    zero = torch.zeros_like(lhs)
    inside = off <= size * (1 + ROUNDING)
    return Check(
        name,
        lhs,
        scale,
        printed=bound(zero, applies=(positive < 0) & (range1 <= ROUNDING) & inside),
        corrected=bound(zero, applies=(positive < 0) & inside),
        free=bound((L / 2) * off.square(), -(L / 2) * size.square()),
        hypotheses={"0 < N1 <= 2/L": range1, "|d - G/L| <= |G|/L": ball},
    )


def lemma3(pair: Pair) -> Check:
    """If 0 < N1 <= 2/L and |N1 o G + N2 - G/L| <= |G|/L, then F(x_k) - F(x_{k-1}) <= 0.   HOLDS

    The second condition alone is enough. Assumption-free: (L/2)(|N1 o G + N2 - G/L|^2 - |G/L|^2).
    """
    return descent_condition(pair, "Lemma 3")


def corollary4(pair: Pair) -> Check:
    """N1 = 1/L, N2 = 0 is proximal gradient descent (the paper says gradient descent) and
    F(x_K) - F* <= L D_0^2 / 2K.   HOLDS

    Assumption-free: Theorem 5, plus F(x_K) - min_k F(x_k).
    """
    return rate_check("Corollary 4", pair, smooth=False)


def theorem4(pair: Pair) -> Check:
    """Under Assumption 2, if N1(z') > 0 and f' is smooth with the same L,
    F'(x'_k) - F'(x'_{k-1}) <= -|G'|^2/2L + (L/2) |(J1 s') o G' + J2 s'|^2.   HOLDS

    Assumption-free: -|G'|^2/2L + (L/2) |(N1(z') - 1/L) o G' + N2(z')|^2.
    """
    return gain_check(pair, "Theorem 4", history=False)


def gain_check(pair: Pair, name: str, history: bool) -> Check:
    """-|G'|^2/2L + (L/2) |(J1 s') o G' + J2 s' + (J3 s') o P'|^2, the last term only with a history."""
    run, L = pair.ood, pair.L
    lhs, scale = pair.gain()
    descent = -sq(run.G) / (2 * L)
    moved = pair.dN(1) * run.G + pair.dN(2)
    if history:
        moved = moved + pair.dN(3) * run.P
    off = run.N1 * run.G + run.N2 + run.N3 * run.P - run.G / pair.column
    right = bound(descent, (L / 2) * sq(moved))
    terms = {
        "|G'|²/2L, what a step 1/L earns": -descent,
        "(L/2)|(N1(z') - 1/L) G'|²": (L / 2) * sq((run.N1 - 1 / pair.column) * run.G),
        "(L/2)|N2(z')|²": (L / 2) * sq(run.N2),
        "(L/2)|N3(z') P'|²": (L / 2) * sq(run.N3 * run.P),
    }
    free = bound(descent, (L / 2) * sq(off))
    return Check(name, lhs, scale, right, right, free, pair.hypotheses(history=history), terms)


def residual(pair: Pair) -> Tensor:
    """e1 o G' + e2 + e3 o P', the part of the step that Assumptions 2 and 3 say is zero."""
    return (pair.ind.N1 - 1 / pair.column) * pair.ood.G + pair.ind.N2 + pair.ind.N3 * pair.ood.P


def moved_by(pair: Pair, C: Constants) -> Tensor:
    """(C1 |G'| + C2 + C3 |P'|) |s'|, an upper bound on |(J1 s') o G' + J2 s' + (J3 s') o P'|."""
    return (C.C1 * norm(pair.ood.G) + C.C2 + C.C3 * norm(pair.ood.P)) * pair.shift


def free_in_norms(pair: Pair, C: Constants) -> Bound:
    """-|G'|^2/2L + (L/2)(|e1 o G' + e2 + e3 o P'| + (C1 |G'| + C2 + C3 |P'|) |s'|)^2, whatever the networks are."""
    off = norm(residual(pair)) + moved_by(pair, C)
    return bound(-sq(pair.ood.G) / (2 * pair.L), (pair.L / 2) * off.square())


def corollary5(pair: Pair, constants: Constants | None = None) -> Check:
    """Under Assumption 2,
    F'(x'_k) - F'(x'_{k-1}) <= -|G'|^2/2L + L n^2 (C1^2 |G'|^2 + C2^2) |s'|^2.   HOLDS

    The factor n^2 can be left out, which is what `corrected` does.
    Assumption-free: -|G'|^2/2L + (L/2)(|e1 o G' + e2 + e3 o P'| + (C1 |G'| + C2 + C3 |P'|) |s'|)^2.
    """
    C = constants or secant_constants(pair)
    run, L = pair.ood, pair.L
    lhs, scale = pair.gain()
    n = run.G.shape[-1]
    descent = -sq(run.G) / (2 * L)
    penalty = L * (C.C1.square() * sq(run.G) + C.C2.square()) * pair.shift.square()
    printed, corrected = bound(descent, n**2 * penalty), bound(descent, penalty)
    return Check("Corollary 5", lhs, scale, printed, corrected, free_in_norms(pair, C), pair.hypotheses())


def averaged_check(pair: Pair, name: str) -> Check:
    """min_k F'(x'_k) - F'* <= (L/2K)(D_0^2 - D_K^2) + (L/K) sum <x'_k - x'_{k-1} + G'/L, x'_k - x'*>."""
    lhs, scale = pair.best()
    right = bound(*averaged_bound(pair))
    hypotheses = {"L' <= L": (pair.smoothness - pair.L) / pair.L, "gam' in dr'(x'_k)": pair.ood.membership.amax(0)}
    return Check(name, lhs, scale, right, right, right, hypotheses)


def theorem5(pair: Pair) -> Check:
    """min_k F'(x'_k) - F'* <= (L/2K)(D_0^2 - D_K^2) + (L/K) sum <x'_k - x'_{k-1} + G'/L, x'_k - x'*>.   HOLDS

    No assumption on the networks enters, and any point may stand for x'*.
    """
    return averaged_check(pair, "Theorem 5")


def corollary6(pair: Pair, constants: Constants | None = None) -> Check:
    """Under Assumption 2, min_k F'(x'_k) - F'* <= (L/2K)(D_0^2 - D_K^2) - (1/K) sum <g', x'_k - x'*>
                                              + (L/K) sum sqrt(n) (C1 |g'| + C2) |x'_k - x'*| |s'|.   FALSE

    Corrected: (L/2K)(D_0^2 - D_K^2) + (L/K) sum (C1 |G'| + C2) |s'| |x'_k - x'*|.
    Assumption-free: the same with C3 |P'| beside C2, minus (L/K) sum <e1 o G' + e2 + e3 o P', x'_k - x'*>.
    """
    return averaged_constants(pair, constants or secant_constants(pair), "Corollary 6", history=False)


def averaged_constants(pair: Pair, C: Constants, name: str, history: bool) -> Check:
    """Corollaries 6 and 10."""
    run, L, K = pair.ood, pair.L, pair.ood.steps
    lhs, scale = pair.best()
    first, last, *_ = averaged_bound(pair)
    away, D = run.x[1:] - pair.target, pair.distance[1:]
    root = away.shape[-1] ** 0.5
    spurious = (-dot(run.grad, away) / K).unbind(0)
    small = root * (C.C1 * norm(run.grad) + C.C2) * pair.shift
    large = (C.C1 * norm(run.G) + C.C2) * pair.shift
    if history:
        small = small + root * C.C3 * norm(run.P)
        large = large + C.C3 * norm(run.P) * pair.shift
    rest = (-(L / K) * dot(residual(pair), away)).unbind(0)
    found = pair.hypotheses(history=history)
    return Check(
        name,
        lhs,
        scale,
        bound(first, last, *spurious, (L / K) * (small * D).sum(0)),
        bound(first, last, (L / K) * (large * D).sum(0)),
        bound(first, last, (L / K) * (moved_by(pair, C) * D).sum(0), *rest),
        {key: value.amax(0) for key, value in found.items()},
    )
