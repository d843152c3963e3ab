"""The smallest counterexample to every false statement, run live; their numbers are those of the errata."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from sureprox.audit import composite, smooth
from sureprox.audit.math_l2o import Affine, MathL2O
from sureprox.audit.result import Check
from sureprox.audit.trajectory import Constants, Pair, pair
from sureprox.problems import L1, LeastSquares, Penalty, Problem, Zero


@dataclass(frozen=True)
class Counterexample:
    """lhs <= printed is claimed and false; corrected is what is true instead (None: nothing replaces it)."""

    statement: str
    instance: str  # everything needed to do it by hand
    lhs: float
    printed: float
    corrected: float | None
    corrected_lhs: float | None = None  # where the corrected statement has another left side
    notes: Mapping[str, float] = field(default_factory=dict)  # further numbers, with what they are


def tensor(*rows: float | tuple[float, ...]) -> Tensor:
    """One instance: (1, n)."""
    return torch.tensor([list(rows)], dtype=torch.float64)


def quadratic(h: float = 1.0, n: int = 1, lam: float = 0.0) -> Problem:
    """h/2 |x|^2 + lam |x|_1 on R^n."""
    A = h**0.5 * torch.eye(n, dtype=torch.float64).unsqueeze(0)
    r: Penalty = L1(lam) if lam else Zero()
    return Problem(LeastSquares(A, torch.zeros(1, n, dtype=torch.float64)), r)


def constant(value: Tensor, width: int) -> Affine:
    """N(z) = value."""
    n = value.shape[1]
    return Affine(value, torch.zeros(1, n, width, dtype=torch.float64), torch.zeros(1, width, dtype=torch.float64))


def linear(slope: list[list[float]], value: float = 0.0) -> Affine:
    """N(z) = value + slope z."""
    S = torch.tensor([slope], dtype=torch.float64)
    return Affine(torch.full((1, S.shape[1]), value, dtype=torch.float64), S, torch.zeros_like(S[:, 0]))


def runs(
    optimizer: MathL2O,
    x0: Tensor,
    problem: Problem,
    problem_ood: Problem | None = None,
    *,
    inside: Tensor | None = None,
    target: Tensor | None = None,
    steps: int = 1,
    L: float = 1.0,
    previous: Tensor | None = None,
) -> Pair:
    """The run from x0, beside the one in distribution that stays at `inside` (the origin)."""
    ood = problem_ood or problem
    zero = torch.zeros_like(x0)
    step = torch.tensor([1 / L], dtype=torch.float64)
    rest = zero if inside is None else inside
    return pair(
        optimizer,
        problem,
        optimizer.init(problem, rest, step_size=step),
        ood,
        optimizer.init(ood, x0, step_size=step, previous=previous),
        zero if target is None else target,
        steps,
    )


def constants(*values: float) -> Constants:
    return Constants(*(torch.tensor([v], dtype=torch.float64) for v in (*values, 0.0, 0.0, 0.0, 0.0)[:4]))


def shown(check: Check, instance: str, notes: Mapping[str, float] | None = None) -> Counterexample:
    """The first step of the first instance."""

    def number(value: Tensor) -> float:
        return float(value.flatten()[0])

    return Counterexample(
        check.statement,
        instance,
        number(check.lhs),
        number(check.printed.value),
        number(check.corrected.value) if check.corrected.applies is None else None,
        None if check.corrected.lhs is None else number(check.corrected.lhs),
        notes or {},
    )


def lemma1() -> Counterexample:
    N1, N2 = constant(tensor(1, 1), 6), constant(2**0.5 * tensor(1, 1), 6)
    both = runs(MathL2O(N1, N2), tensor(1, 1), quadratic(n=2))
    five = torch.ones(1, 5, dtype=torch.float64)
    other = runs(MathL2O(constant(0 * five, 15), constant(5**0.5 * five, 15)), five, quadratic(n=5))
    before, after = both.ood.F[:, 0].tolist()
    return shown(
        smooth.lemma1(both),
        "f = |x|²/2 on R², L = 1, x = (1, 1), N1 = (1, 1), N2 = √2 (1, 1), which is in the box with angle 0",
        {
            "F before": before,
            "F after": after,
            "F before, for n = 5, x = N2/√5 = (1, ..., 1), N1 = 0": float(other.ood.F[0, 0]),
            "F after, for n = 5": float(other.ood.F[1, 0]),
        },
    )


def theorem2() -> Counterexample:
    both = runs(MathL2O(linear([[0, 0, 0]], 0.5), linear([[-1, -0.5, 0]])), tensor(1), quadratic(), steps=3)
    return shown(
        smooth.theorem2(both),
        "f = f' = x²/2, L = 1, in distribution only x = 0, N1 = 1/2, N2(z) = z_g/2 - (z_x + z_g), K = 3: "
        "x' = 1, 2, 4, 8",
        {"last point": float(both.ood.x[-1, 0, 0])},
    )


def corollary3() -> Counterexample:
    both = runs(MathL2O(linear([[-0.25, -0.25, 0]], 0.5), linear([[0, 0, 0]])), tensor(2), quadratic())
    return shown(
        smooth.corollary3(both, constants(2**0.5 / 4, 0)),
        "f = f' = x²/2, L = 1, in distribution only x = 0, N1(z) = 1/2 - (z_x + z_g)/4, N2 = 0, C1 = √2/4, C2 = 0, "
        "K = 1: x' = 2, 3",
    )


def corollary6() -> Counterexample:
    gradient = MathL2O(linear([[0, 0, 0]], 1), linear([[0, 0, 0]]))
    both = runs(gradient, tensor(1), quadratic(0.1))
    second = composite.corollary6(runs(gradient, tensor(1), quadratic(0.1, lam=0.01)), constants())
    flat = Problem(LeastSquares(torch.zeros(1, 1, 1).double(), torch.zeros(1, 1).double()), L1(1.0))
    third = runs(MathL2O(linear([[-0.25, 0, 0]], 1), linear([[0, 0, 0]])), tensor(3), flat)
    dropped = composite.corollary6(third, constants(0.25))
    return shown(
        composite.corollary6(both, constants()),
        "in distribution already (s' = 0): f = x²/20, r = 0, L = 1, K = 1, N1 = 1, N2 = 0: x = 1, 0.9",
        {
            "left side with r = 0.01 |x|": float(second.lhs),
            "printed, with r = 0.01 |x|": float(second.printed.value),
            "left side with f = 0, r = |x|, N1(z) = 1 - z_x/4, C1 = 1/4, x' = 3 (gam dropped)": float(dropped.lhs),
            "printed, for it": float(dropped.printed.value),
            "corrected, for it": float(dropped.corrected.value),
        },
    )


def smoothness_of_f_prime() -> Counterexample:
    """Theorem 1 where f' is less smooth than L says: not an error of the paper, but a hypothesis it hides."""
    both = runs(MathL2O(linear([[0, 0, 0]], 0.5), linear([[0, 0, 0]])), tensor(1), quadratic(), quadratic(10))
    return shown(smooth.theorem1(both), "f' = 5x² (L' = 10) but L = 1, N1 = 1/2, N2 = 0, x' = 1")


def prox_gain() -> dict[str, float]:
    """-|G|²/2L is not the gain of ISTA: x = 1, grad = 0.5, lam = 0.4, L = 1, for R = 3 and R = 1."""
    A, b = torch.ones(1, 1, 1).double(), tensor(0.5)
    problem = Problem(LeastSquares(A, b), L1(0.4))
    found = {}
    for R in (3.0, 1.0):
        both = runs(MathL2O(linear([[0, 0, 0]], R), linear([[0, 0, 0]])), tensor(1), problem)
        found[f"R = {R:g}"] = float(-both.ood.G.square() / 2)
    return found


def ood_can_help() -> dict[str, float]:
    """f' = x²/20, L = 1, x' = 1: gradient descent, and a network that is out of distribution by J1 s' = 1.5."""
    found = {}
    for name, N1 in (("gradient descent", 0.5), ("J1 s' = 1.5", 2.0)):
        both = runs(MathL2O(linear([[0, 0, 0]], N1), linear([[0, 0.5, 0]])), tensor(1), quadratic(), quadratic(0.1))
        found[name] = float(both.ood.F[1])
    return found


def vacuous_corollary2(n: int = 500) -> dict[str, float]:
    """f = |x|²/2, |x'|² = 470, N1 = 1/2, N2 = z_g/2: Corollary 2 as printed, Frobenius norms, against the truth."""
    x = torch.full((1, n), (470 / n) ** 0.5, dtype=torch.float64)
    N2 = Affine(0 * x, torch.cat([torch.zeros(n, n), torch.eye(n) / 2, torch.zeros(n, n)], 1).double()[None], _zeros(n))
    both = runs(MathL2O(constant(x * 0 + 0.5, 3 * n), N2), x, quadratic(n=n))
    check = smooth.corollary2(both, constants(0.0, float(N2.lipschitz)))
    descent = float(both.ood.grad.square().sum() / 2)
    change = float((both.ood.grad - both.ind.grad).square().sum() / 2)
    return {
        "gain of gradient descent": descent,
        "printed penalty": float(check.printed.value) + descent - change,
        "true penalty": float(smooth.theorem1(both).free.value) + descent,
    }


def _zeros(n: int) -> Tensor:
    return torch.zeros(1, 3 * n, dtype=torch.float64)


def side_claim_of_lemma3() -> dict[str, float]:
    """N1 = 0, N2 in [0, 2|G|/L]: f = x²/2, x = -1, N2 = 1."""
    both = runs(MathL2O(linear([[0, 0, 0]]), linear([[0, 0, 0]], 1)), tensor(-1), quadratic())
    return {"F before": float(both.ood.F[0]), "F after": float(both.ood.F[1])}


def threshold_of_corollary6(mu: float) -> float:
    """Right side as printed minus left side for f = mu x²/2, r = 0, L = 1, one gradient step from x = 1."""
    gradient = MathL2O(linear([[0, 0, 0]], 1), linear([[0, 0, 0]]))
    check = composite.corollary6(runs(gradient, tensor(1), quadratic(mu)), constants())
    return float(check.printed.value - check.lhs)


SMALL: tuple[Callable[[], Counterexample], ...] = (lemma1, theorem2, corollary3, corollary6)
