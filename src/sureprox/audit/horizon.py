"""The longer horizon: Lemmas 5 and 6, Corollaries 7-10, Theorems 6-9, and the comparison of the two histories.

x_k = x_{k-1} - N1 o G - N2 - N3 o P, G = grad f(x_{k-1}) + gam_k, gam_k in dr(x_k), P made from the past.
Variable history: P = N4(u) o (x_{k-2} - x_{k-1}), u = (x_{k-1}, x_{k-2}).
Gradient history: P = N4(w) o (q_{k-2} - q_{k-1}), w = (q_{k-1}, q_{k-2}), q_j = grad f(x_j) + gam_j.
Assumption 3: N1(z) = 1/L, N2(z) = N3(z) = N4 = 0 in distribution; e1, e2, e3 are its residuals.
"""

import torch
from torch import Tensor

from sureprox.audit.composite import (
    averaged_check,
    averaged_constants,
    basic_bound,
    descent_condition,
    free_in_norms,
    gain_check,
)
from sureprox.audit.math_l2o import MathL2O
from sureprox.audit.result import Bound, Check, bound, sq
from sureprox.audit.smooth import rate_check
from sureprox.audit.trajectory import Constants, Pair, secant_constants


def lemma5(pair: Pair, at: Tensor | None = None) -> Check:
    """F(x_k) <= F(t) + <G, x_{k-1} - t> + (L/2)(|N1 o G + N2 + N3 o P - G/L|^2 - |G/L|^2) for every t.   HOLDS

    With P inside the prox. A display of the paper closes the prox before P; the bound is then false.
    """
    return basic_bound(pair, "Lemma 5", at)


def lemma6(pair: Pair) -> Check:
    """If 0 < N1 <= 2/L and |N1 o G + N2 + N3 o P - G/L| <= |G|/L, then F(x_k) - F(x_{k-1}) <= 0.   HOLDS"""
    return descent_condition(pair, "Lemma 6")


def corollary7(pair: Pair) -> Check:
    """N1 = 1/L, N2 = N3 = P = 0 is proximal gradient descent and F(x_K) - F* <= L D_0^2 / 2K.   HOLDS"""
    return rate_check("Corollary 7", pair, smooth=False)


def theorem6(pair: Pair) -> Check:
    """Under Assumption 3, with N1(z') > 0 and the same L,
    F'(x'_k) - F'(x'_{k-1}) <= -|G'|^2/2L + (L/2) |(J1 s') o G' + J2 s' + (J3 s') o P'|^2.   HOLDS

    Assumption-free: -|G'|^2/2L + (L/2) |(N1(z') - 1/L) o G' + N2(z') + N3(z') o P'|^2.
    """
    return gain_check(pair, "Theorem 6", history=True)


def _history_gain(pair: Pair, name: str, printed_past: Tensor | None) -> Check:
    """Theorem 6 with P' = (J4 .) o difference; `printed_past` is what the paper's formula has for J4."""
    run, L = pair.ood, pair.L
    base = gain_check(pair, name, history=True)
    descent = -sq(run.G) / (2 * L)

    def right(past: Tensor) -> Bound:
        moved = pair.dN(1) * run.G + pair.dN(2) + pair.dN(3) * past * run.difference
        return bound(descent, (L / 2) * sq(moved))

    true = right(pair.dN(4))
    printed = true if printed_past is None else right(printed_past)
    found = dict(base.hypotheses) | {
        "N4 = 0 in distribution": pair.ind.N4.abs().amax(-1),
        "P' = N4 o difference": (run.P - run.N4 * run.difference).abs().amax(-1),
    }
    return Check(name, base.lhs, base.lhs_scale, printed, true, base.free, found)


def theorem7(pair: Pair) -> Check:
    """Theorem 6 for the variable history: P' = (J4 u') o (x'_{k-2} - x'_{k-1}), u' = (s_{k-1}, s_{k-2}).   HOLDS"""
    return _history_gain(pair, "Theorem 7", None)


def theorem8(pair: Pair) -> Check:
    """Theorem 6 for the gradient history: P' = (J4 w') o (q'_{k-2} - q'_{k-1}).   FALSE as printed

    The paper's w' has grad f(x'_j) where the features have grad f'(x'_j). Corrected: w' is the difference of the
    features, w' = (q'_{k-1} - q_{k-1}, q'_{k-2} - q_{k-2}). The printed side needs J4 w' for the printed w', that is
    N4 itself; it is left as corrected where the optimizer is not a `MathL2O`.
    """
    printed = None
    if isinstance(pair.optimizer, MathL2O) and pair.optimizer.N4 is not None:
        wrong = pair.ind.history + printed_w(pair)
        N4 = pair.optimizer.N4
        printed = torch.stack([N4(w) for w in wrong]) - pair.ind.N4
    return _history_gain(pair, "Theorem 8", printed)


def printed_w(pair: Pair) -> Tensor:
    """(K, B, 2n): the paper's w', with grad f at x'_{k-1} and x'_{k-2} instead of grad f'."""
    points = torch.stack([pair.ood.x[:-1], pair.ood.previous])
    gradients = [torch.stack([pair.problem.grad(x) for x in rows]) for rows in points]
    return torch.cat(gradients, -1) + pair.ood.explicit - pair.ind.history


def corollary8(pair: Pair, constants: Constants | None = None) -> Check:
    """Under Assumption 3, variable history, U = |s_{k-1}|^2 + |s_{k-2}|^2, X = |x'_{k-1} - x'_{k-2}|^2,
    F'(x'_k) - F'(x'_{k-1}) <= -|G'|^2/2L + L (C1^2 |G'|^2 + C2^2 + C3^2 C4^2 U X)
                               (|s_{k-1}|^2 + |g' - g|^2 + |gam'_k - gam_k|^2 + C4^2 U X).   FALSE

    Corrected: 3L/2 instead of L, since |a + b + c|^2 <= 3 (|a|^2 + |b|^2 + |c|^2).
    Assumption-free: -|G'|^2/2L + (L/2)(|e1 o G' + e2 + e3 o P'| + (C1 |G'| + C2 + C3 |P'|) |s'|)^2.
    """
    C = constants or secant_constants(pair)
    UX = sq(pair.ood.history - pair.ind.history) * sq(pair.ood.difference)
    features = sq(pair.s[:-1]) + _common_features(pair) + C.C4.square() * UX
    first = C.C1.square() * sq(pair.ood.G) + C.C2.square() + C.C3.square() * C.C4.square() * UX
    return _squared(pair, "Corollary 8", C, first * features, 1.5 * first * features)


def corollary9(pair: Pair, constants: Constants | None = None) -> Check:
    """Under Assumption 3, gradient history, gam_j the subgradients used as features,
    W = L^2 (|s_{k-1}|^2 + |s_{k-2}|^2) + |gam'_{k-1} - gam_{k-1}|^2 + |gam'_{k-2} - gam_{k-2}|^2,
    Y = L^2 |x'_{k-1} - x'_{k-2}|^2 + |gam'_{k-1} - gam'_{k-2}|^2,
    F'(x'_k) - F'(x'_{k-1}) <= -|G'|^2/2L + L (n^2 C1^2 |G'|^2 + n^2 C2^2 + n^4 C3^2 C4^2 W Y)
                               (|g' - g|^2 + |gam'_k - gam_k|^2 + n^2 C4^2 W Y).   FALSE

    Corrected: 3L/2, no powers of n, W = |w'|^2 with the true w', Y = |q'_{k-1} - q'_{k-2}|^2.
    Assumption-free: as in Corollary 8.
    """
    C = constants or secant_constants(pair)
    ind, ood, L = pair.ind, pair.ood, pair.L
    n = ood.G.shape[-1]
    before = ood.previous - ind.previous
    W = L.square() * (sq(pair.s[:-1]) + sq(before)) + sq(ood.explicit - ind.explicit)
    now, then = ood.explicit.chunk(2, -1)
    Y = L.square() * sq(ood.x[:-1] - ood.previous) + sq(now - then)
    G = C.C1.square() * sq(ood.G) + C.C2.square()
    C34, C4 = (C.C3 * C.C4).square(), C.C4.square()
    printed = (n**2 * G + n**4 * C34 * W * Y) * (_common_features(pair) + n**2 * C4 * W * Y)
    true = sq(ood.history - ind.history) * sq(ood.difference)
    corrected = 1.5 * (G + C34 * true) * (_common_features(pair) + C4 * true)
    return _squared(pair, "Corollary 9", C, printed, corrected)


def _common_features(pair: Pair) -> Tensor:
    """|g' - g|^2 + |gam'_k - gam_k|^2."""
    return sq(pair.ood.grad - pair.ind.grad) + sq(pair.ood.gam - pair.ind.gam)


def _squared(pair: Pair, name: str, C: Constants, printed: Tensor, corrected: Tensor) -> Check:
    """-|G'|^2/2L + L times the two penalties."""
    lhs, scale = pair.gain()
    L = pair.L
    descent = -sq(pair.ood.G) / (2 * L)
    found = pair.hypotheses(history=True) | {"N4 = 0 in distribution": pair.ind.N4.abs().amax(-1)}
    sides = bound(descent, L * printed), bound(descent, L * corrected), free_in_norms(pair, C)
    return Check(name, lhs, scale, *sides, found)


def theorem9(pair: Pair) -> Check:
    """min_k F'(x'_k) - F'* <= (L/2K)(D_0^2 - D_K^2) + (L/K) sum <x'_k - x'_{k-1} + G'/L, x'_k - x'*>.   HOLDS

    Theorem 5 again: no assumption on the networks enters.
    """
    return averaged_check(pair, "Theorem 9")


def corollary10(pair: Pair, constants: Constants | None = None) -> Check:
    """Under Assumption 3, min_k F'(x'_k) - F'* <= (L/2K)(D_0^2 - D_K^2) - (1/K) sum <g', x'_k - x'*>
        + (L/K) sum sqrt(n) ((C1 |g'| + C2) |s'| + C3 |P'|) |x'_k - x'*|.   FALSE

    Corrected: (L/2K)(D_0^2 - D_K^2) + (L/K) sum (C1 |G'| + C2 + C3 |P'|) |s'| |x'_k - x'*|.
    Assumption-free: the same, minus (L/K) sum <e1 o G' + e2 + e3 o P', x'_k - x'*>.
    """
    return averaged_constants(pair, constants or secant_constants(pair), "Corollary 10", history=True)


def comparison(variable: Pair, gradient: Pair, constants: Constants) -> Check:
    """ "The gradient history has the smaller bound": penalty of Corollary 9 <= penalty of Corollary 8.   FALSE

    Both penalties from the true features and with the same constants; lhs: gradient history, rhs: variable history.
    There is nothing to correct: upper bounds of different networks do not rank methods.
    """
    UX = sq(variable.ood.history - variable.ind.history) * sq(variable.ood.difference)
    WY = sq(gradient.ood.history - gradient.ind.history) * sq(gradient.ood.difference)
    C34, C4 = (constants.C3 * constants.C4).square(), constants.C4.square()

    def penalty(pair: Pair, past: Tensor, own: Tensor) -> Tensor:
        G = constants.C1.square() * sq(pair.ood.G) + constants.C2.square()
        return pair.L * (G + C34 * past) * (own + _common_features(pair) + C4 * past)

    lhs = penalty(gradient, WY, torch.zeros_like(WY))
    right = bound(penalty(variable, UX, sq(variable.s[:-1])))
    nothing = bound(torch.full_like(lhs, torch.inf), applies=torch.zeros_like(lhs, dtype=torch.bool))
    return Check("Comparison", lhs, lhs.abs(), right, nothing, nothing)
