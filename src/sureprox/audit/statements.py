"""The statements of the paper, in its order: what they say, whether they hold as printed, and what is true instead."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from sureprox.audit import composite, horizon, smooth
from sureprox.audit.result import Check


class Verdict(StrEnum):
    HOLDS = "holds"
    FALSE = "false"


class Case(StrEnum):
    """Which runs a statement speaks about."""

    ANY = "jacobian"  # networks, no run
    SMOOTH = "smooth"  # r = 0, Assumption 1
    SMOOTH_IN = "smooth, in distribution"
    COMPOSITE = "composite"  # Assumption 2
    COMPOSITE_IN = "composite, in distribution"
    HORIZON = "longer horizon"  # Assumption 3, any history
    HORIZON_IN = "longer horizon, in distribution"
    VARIABLE = "variable history"
    GRADIENT = "gradient history"
    OTHER = "other"  # not an inequality along a run


@dataclass(frozen=True)
class Statement:
    """`line` is that of the paper's source; `check` is None where the statement is tried in a way of its own."""

    name: str
    line: int
    claim: str
    verdict: Verdict
    case: Case
    remark: str  # what is wrong, or what could be sharper
    check: Callable[..., Check] | None = None

    @property
    def constants(self) -> bool:
        """Whether the right side has constants C_j of the networks in it."""
        return self.case not in (Case.OTHER, Case.SMOOTH_IN, Case.COMPOSITE_IN, Case.HORIZON_IN) and (
            self.name.startswith("Corollary")
        )


H, F = Verdict.HOLDS, Verdict.FALSE

STATEMENTS: tuple[Statement, ...] = (
    Statement(
        "Virtual Jacobian", 222, "N(z') = N(z) + J s' with |J| <= sqrt(n) C", H, Case.ANY,
        "sqrt(n) is superfluous: the average Jacobian has |J|_F <= C",
    ),
    Statement(
        "Lemma 1", 280, "N2 in a box: F decreases", F, Case.SMOOTH,
        "a box instead of a ball; true for n = 1; false for some f and x exactly when sqrt(n) + lam L > 2",
        smooth.lemma1,
    ),
    Statement(
        "Corollary 1", 303, "N1 = 1/2L, N2 = g/2L is gradient descent, rate L D0²/2K", H, Case.SMOOTH_IN,
        "the sharp constant is L D0²/(4K + 2)", smooth.corollary1,
    ),
    Statement(
        "Theorem 1", 329, "bound on the gain of one step", H, Case.SMOOTH,
        "f' must be smooth with the same L", smooth.theorem1,
    ),
    Statement(
        "Corollary 2", 349, "the same in terms of |s'|", H, Case.SMOOTH,
        "both factors n can be left out; with them it says nothing in practice", smooth.corollary2,
    ),
    Statement(
        "Theorem 2", 369, "bound after K steps", F, Case.SMOOTH,
        "the distances lack the factor 1/K; with it no assumption is needed", smooth.theorem2,
    ),
    Statement(
        "Corollary 3", 389, "the same in terms of |s'|", F, Case.SMOOTH,
        "1/K and a factor |x'_k - x'*| are missing", smooth.corollary3,
    ),
    Statement(
        "Theorem 3", 446, "the necessary form of a gradient-only method", F, Case.OTHER,
        "the centre of the prox lacks x_{k-1} and has wrong signs; b_2 -> 0 and R > 0 do not follow",
    ),
    Statement(
        "Lemma 2", 1487, "basic bound between any two points", H, Case.COMPOSITE,
        "true for every network; N1 > 0 is needed, N1 >= 0 is not enough", composite.lemma2,
    ),
    Statement(
        "Lemma 3", 1565, "a condition under which F decreases", H, Case.COMPOSITE,
        "its second condition alone is enough; a side claim of the proof is false where G_i < 0", composite.lemma3,
    ),
    Statement(
        "Corollary 4", 1633, "N1 = 1/L, N2 = 0: rate L D0²/2K", H, Case.COMPOSITE_IN,
        "the method is proximal gradient descent, not gradient descent", composite.corollary4,
    ),
    Statement(
        "Theorem 4", 1743, "bound on the gain of one step", H, Case.COMPOSITE,
        "N1(z') > 0 and the same L have to be assumed", composite.theorem4,
    ),
    Statement(
        "Corollary 5", 1799, "the same in terms of |s'|", H, Case.COMPOSITE,
        "the factor n² can be left out", composite.corollary5,
    ),
    Statement(
        "Theorem 5", 1825, "bound after K steps", H, Case.COMPOSITE,
        "no assumption on the networks is needed", composite.theorem5,
    ),
    Statement(
        "Corollary 6", 1972, "the same in terms of |s'|", F, Case.COMPOSITE,
        "a spurious -(1/K) sum <g', x'_k - x'*>; g' stands where G' = g' + gam' belongs", composite.corollary6,
    ),
    Statement(
        "Lemma 4", 2045, "the features must contain all variables", F, Case.OTHER,
        "a linear update needs no feature at all, and re-encodings of the variables suffice for every other",
    ),
    Statement(
        "Lemma 5", 2238, "basic bound with a history", H, Case.HORIZON,
        "one display closes the prox before the history; the bound is then false", horizon.lemma5,
    ),
    Statement(
        "Lemma 6", 2307, "a condition under which F decreases", H, Case.HORIZON,
        "as for Lemma 3", horizon.lemma6,
    ),
    Statement(
        "Corollary 7", 2418, "N1 = 1/L, N2 = N3 = 0: rate L D0²/2K", H, Case.HORIZON_IN,
        "the method is proximal gradient descent", horizon.corollary7,
    ),
    Statement(
        "Theorem 6", 2649, "bound on the gain of one step, any history", H, Case.HORIZON,
        "N1(z') > 0 and the same L have to be assumed", horizon.theorem6,
    ),
    Statement(
        "Theorem 7", 2716, "the same, variable history", H, Case.VARIABLE,
        "s' has to be that of the features really used", horizon.theorem7,
    ),
    Statement(
        "Corollary 8", 2729, "the same in norms", F, Case.VARIABLE,
        "|a + b + c|² needs the factor 3: 3L/2 instead of L", horizon.corollary8,
    ),
    Statement(
        "Theorem 8", 2808, "the same, gradient history", F, Case.GRADIENT,
        "w' has grad f where the features have grad f'", horizon.theorem8,
    ),
    Statement(
        "Corollary 9", 2827, "the same in norms", F, Case.GRADIENT,
        "w' with grad f, |a + b|² <= |a|² + |b|², and L instead of 3L/2", horizon.corollary9,
    ),
    Statement(
        "Comparison", 2947, "the gradient history has the smaller bound", F, Case.OTHER,
        "rests on Corollary 9; with valid bounds either can be smaller, and bounds do not rank methods",
    ),
    Statement(
        "Theorem 9", 3043, "bound after K steps, any history", H, Case.HORIZON,
        "no assumption on the networks is needed", horizon.theorem9,
    ),
    Statement(
        "Corollary 10", 3058, "the same in terms of |s'|", F, Case.HORIZON,
        "as Corollary 6, and the C3 term lacks |s'|", horizon.corollary10,
    ),
    Statement(
        "OOD prox", 535, "prox of lam|x + t|", F, Case.OTHER,
        "the sign of v stands where that of v + t belongs; every method then solves another problem",
    ),
    Statement(
        "L for LASSO", 3124, "L = |A|_2", F, Case.OTHER, "L = |A|_2²",
    ),
    Statement(
        "Size of b", 495, "b in R^500", F, Case.OTHER, "b = A x is in R^250",
    ),
)  # fmt: skip
