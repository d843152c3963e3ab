"""Counterexamples for the longer horizon, the model's form and the experiment section; see `counterexamples`."""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from sureprox.audit import horizon, structure
from sureprox.audit.counterexamples import SMALL, Counterexample, constants, linear, quadratic, runs, shown, tensor
from sureprox.audit.math_l2o import Affine, MathL2O
from sureprox.audit.result import Check
from sureprox.audit.trajectory import Pair
from sureprox.problems import L1, LeastSquares, Problem


def corollary8() -> Counterexample:
    third = [[1 / 3, 1 / 3, 1 / 3]]
    model = MathL2O(linear(third, 1), linear(third), linear(third), linear([[0.2, 0.4]]))
    both = runs(model, tensor(1), quadratic(), previous=tensor(2))
    C = 3**-0.5
    return shown(
        horizon.corollary8(both, constants(C, C, C, 5**-0.5)),
        "f = f' = x²/2, r = 0, L = 1, in distribution only x = 0, x'_{k-1} = 1, x'_{k-2} = 2, J4 = u'/5, "
        "J1 = J2 = J3 = s'/3, s' = (1, 1, 0, 1), so x'_k = -3",
        {"next point": float(both.ood.x[-1])},
    )


def shifted_gradients(n: int, near: float, C3: float, C4: float) -> Pair:
    """f' = f(. + 1), f = |x|²/2 on R^n, x'_{k-1} = near and x'_{k-2} = -near in every coordinate, gradient history.

    N1 = 1, N2 = 0; J3 and J4 have rank one along s' and w' and Frobenius norms C3, C4.
    """
    problem = quadratic(n=n)
    one = torch.ones(1, n, dtype=torch.float64)
    side = one / n**0.5
    w = torch.cat([(1 + near) * one, (1 - near) * one], 1)
    N4 = Affine(0 * one, C4 * side.unsqueeze(2) * (w / w.norm()).unsqueeze(1), 0 * w)
    z = torch.cat([(1 + near) * one, -2 * near * N4(w)], 1)
    N3 = Affine(0 * one, C3 * side.unsqueeze(2) * (z / z.norm()).unsqueeze(1), 0 * z)
    flat = torch.zeros(1, n, 2 * n, dtype=torch.float64)
    model = MathL2O(Affine(one, flat, 0 * z), Affine(0 * one, flat, 0 * z), N3, N4, "gradient")
    return runs(model, near * one, problem, problem.shifted(1.0), previous=-near * one, target=-one)


def theorem8() -> Counterexample:
    return shown(
        horizon.theorem8(shifted_gradients(1, 0.1, 1, 10)),
        "f = x²/2, f' = f(. + 1), r = 0, L = 1, in distribution only x = 0, x'_{k-1} = 0.1, x'_{k-2} = -0.1, N1 = 1, "
        "N2 = 0, J3 and J4 along s' and w' with C3 = 1, C4 = 10",
    )


def corollary9() -> Counterexample:
    notes: dict[str, float] = {}
    for n, near, C4 in ((2, 0.01, 32.103), (5, 0.001, 82.7)):
        found = horizon.corollary9(shifted_gradients(n, near, 1, C4), constants(0, 0, 1, C4))
        label = f"n = {n}, x'_{{k-1}} = -x'_{{k-2}} = {near:g}, C4 = {C4:g}"
        notes |= {f"left side for {label}": float(found.lhs), f"printed for {label}": float(found.printed.value)}
    same = same_objective()
    notes |= {"left side for f' = f": float(same.lhs), "printed for f' = f": float(same.printed.value)}
    check = horizon.corollary9(shifted_gradients(1, 0.1, 1, 10), constants(0, 0, 1, 10))
    return replace(shown(check, "the instance of Theorem 8"), notes=notes)


def same_objective() -> Check:
    """Corollary 9 with f' = f = x²/2, n = 1: the counterexample of Corollary 8, told by gradients."""
    half = [[1 / 2, 1 / 2]]
    model = MathL2O(linear(half, 1), linear(half), linear(half), linear([[0.2, 0.4]]), "gradient")
    both = runs(model, tensor(1), quadratic(), previous=tensor(2))
    C = 2**-0.5
    return horizon.corollary9(both, constants(C, C, C, 5**-0.5))


def corollary10() -> Counterexample:
    size = 804**0.5
    N3 = linear([[0.5 * 20 / size, 0.5 * 20 / size, 0.5 * 2 / size]])
    model = MathL2O(linear([[0, 0, 0]], 1), linear([[0, 0, 0]]), N3, linear([[0.01, 0]]))
    both = runs(model, tensor(20), quadratic(), previous=tensor(30))
    check = horizon.corollary10(both, constants(0, 0, 0.5, 0.01))
    spurious = float((both.ood.grad * (both.ood.x[1:] - both.target)).sum())
    return shown(
        check,
        "f = f' = x²/2, r = 0, L = 1, in distribution only x = 0, x'_{k-1} = 20, x'_{k-2} = 30, N1 = 1, N2 = 0, "
        "N4 = 0.01 u_1, J3 along s' with C3 = 0.5, K = 1",
        {"printed, without the spurious term of Corollary 6": float(check.printed.value) + spurious},
    )


def theorem3() -> Counterexample:
    zero = Problem(LeastSquares(torch.ones(1, 1, 1).double(), tensor(2)), L1(0.0))  # grad f(3) = 1
    x, R = tensor(3), tensor(0.5)
    check = structure.theorem3(zero, x, R, tensor(0))
    g = zero.grad(x)
    printed, right = zero.prox(R * g, R), zero.prox(x - R * g, R)
    return shown(
        check,
        "r = 0, x_{k-1} = 3, grad f = 1, R = 0.5, Q = b_1 = 0: the minimiser with the printed centre does not solve "
        "x_k = x_{k-1} - R grad f. Left sides: how far the minimisers are from that",
        {
            "minimiser with the printed centre": float(printed),
            "x_k": float(right),
            "limit of b_2 for f = x²/2, r = |x|, d = grad f/2, v = 0, x_0 = 1 (claimed: 0)": b2_limit(),
            "solutions of one step where N1 reads the implicit subgradient": float(len(implicit_solutions())),
        },
    )


def b2_limit(steps: int = 60) -> float:
    """f = x²/2, r = |x|, d_k = grad f/2, v_k = 0, x_0 = 1: g_k = 1, G_k -> 1, so b_2 = (I - B) G + B G - v -> 1."""
    x, G = 1.0, 0.0
    for _ in range(steps):
        after = x - x / 2
        G = x + 1.0  # grad f(x_{k-1}) + g_k with g_k = sign(x_k) = 1
        x = after
    return G


def implicit_solutions() -> list[float]:
    """x = 4 - N1(g)(2 + g), N1(g) = 6/(2 + g)², g in d|x|: every sign of x gives one."""
    found = []
    for sign in (-1.0, 1.0):
        x = 4 - 6 / (2 + sign)
        if x * sign > 0:
            found.append(x)
    at_zero = 6 / 4 - 2  # the g with x = 0
    return sorted([*found, 0.0]) if abs(at_zero) <= 1 else sorted(found)


def recovered_subgradient() -> float:
    """x_{k-1} = 0.2, r = 0.3 |x|, a step that crosses 0: R^-1 (xbar - x_k) is g_k = -0.3, not g_{k-1} = +0.3."""
    problem = Problem(LeastSquares(torch.ones(1, 1, 1).double(), tensor(-0.8)), L1(0.3))  # grad f(0.2) = 1
    both = runs(MathL2O(linear([[0, 0, 0]], 1), linear([[0, 0, 0]])), tensor(0.2), problem)
    return float(both.ood.gam)


def lemma4() -> Counterexample:
    M = torch.tensor([[2.0, -1.0], [0.5, 3.0]], dtype=torch.float64)
    x, y = (torch.tensor(v, dtype=torch.float64) for v in ([1.0, 0.0], [-2.0, 5.0]))
    return shown(
        structure.lemma4(M, x, y),
        "d(x) = M x: the Jacobian M is the same at x = (1, 0) and y = (-2, 5). The claim wants it to tell them apart "
        "(left side 1), but it changes by 0",
    )


def lemma5_display() -> dict[str, float]:
    """The history outside the prox: h = .728, lam = 1.888, x = .349, c = -1.042, N3 P = 4.341, N1 = .108, L = 1."""
    h, lam, x, c, past, N1 = 0.728, 1.888, 0.349, -1.042, 4.341, 0.108
    problem = Problem(LeastSquares(h**0.5 * torch.ones(1, 1, 1).double(), tensor(h**0.5 * c)), L1(lam))
    start, step = tensor(x), tensor(N1)
    g = problem.grad(start)
    inner = problem.prox(start - step * g, step)
    gam = (start - step * g - inner) / step  # in dr(x_k + N3 P), not in dr(x_k)
    after = inner - past
    G, d = g + gam, start - after
    right = problem.objective(start) + 0.5 * ((d - G).square() - G.square()).sum()
    return {"F(x_k)": float(problem.objective(after)), "slack": float(right - problem.objective(after))}


def comparison() -> Counterexample:
    problem = quadratic()
    pairs = []
    for history, width in (("variable", 3), ("gradient", 2)):
        zero = linear([[0.0] * width])
        model = MathL2O(linear([[0.0] * width], 1), zero, zero, linear([[0.0, 0.0]]), history)
        pairs.append(runs(model, tensor(0.1), problem, problem.shifted(1.0), previous=tensor(-0.1), target=tensor(-1)))
    return shown(
        horizon.comparison(pairs[0], pairs[1], constants(1, 1, 1, 1)),
        "L = 1, n = 1, f = x²/2, f' = f(. + 1), s_{k-1} = 0.1, s_{k-2} = -0.1, all C = 1. Left side: penalty of the "
        "gradient history, right side: of the variable history",
    )


def prox() -> Counterexample:
    v, step = tensor(-1), tensor(1)
    check = structure.prox(v, step, 0.1, 10.0)
    printed = structure.printed_prox(v, step, 0.1, 10.0)
    return shown(
        check,
        "lam = 0.1, p = 1, t = 10, v = -1: the minimiser of 0.1 |x + 10| + (x + 1)²/2 is -1.1. Left sides: the "
        "distances of the formulas from it",
        {"printed formula": float(printed), "subgradient it implies": float((v - printed) / step)},
    )


def lipschitz() -> Counterexample:
    check = structure.lasso_smoothness(torch.tensor([[[2.3602]]], dtype=torch.float64))
    large = structure.lasso_smoothness(torch.tensor([[[38.36]]], dtype=torch.float64))
    return replace(
        shown(
            check,
            "|A|_2 = 2.3602 (a 250 x 500 matrix with unit columns), b = 0, from the top singular vector: f after one "
            "step of length 1/L is the left side, f before it the right side",
        ),
        notes={
            "f before, |A|_2 = 38.36 (standard normal entries)": float(large.printed.value),
            "f after": float(large.lhs),
        },
    )


def size_of_b() -> Counterexample:
    A = torch.zeros(250, 500, dtype=torch.float64)
    return shown(
        structure.size_of_b(A, A @ torch.zeros(500, dtype=torch.float64)),
        "A is 250 x 500 and x in R^500, so b = A x has 250 entries; left sides: how far that is from 500 and 250",
    )


ALL: tuple[Callable[[], Counterexample], ...] = (
    *SMALL,
    theorem3,
    lemma4,
    corollary8,
    theorem8,
    corollary9,
    comparison,
    corollary10,
    prox,
    lipschitz,
    size_of_b,
)


def counterexamples() -> dict[str, Counterexample]:
    """All of them, by statement."""
    return {made.statement: made for made in (build() for build in ALL)}


def constrained_fixed_point(t: float, n: int = 20, m: int = 10, steps: int = 1000) -> dict[str, float]:
    """F where ISTA ends on a random LASSO F(x + t) with the printed and the exact prox, and a constrained optimum.

    Where |t| is larger than all iterates, the printed prox solves min F(y) subject to sgn(t) y <= 0, y = x + t.
    """
    generator = torch.Generator().manual_seed(0)
    A = torch.randn(1, m, n, generator=generator, dtype=torch.float64)
    A = A / torch.linalg.vector_norm(A, dim=1, keepdim=True)
    lam, sign = 0.1, 1.0 if t > 0 else -1.0
    problem = Problem(LeastSquares(A, torch.randn(1, m, generator=generator, dtype=torch.float64)), L1(lam))
    step = (1 / problem.lipschitz(exact=True)).unsqueeze(1).expand(1, n)
    maps: dict[str, Callable[[Tensor], Tensor]] = {
        "printed prox": lambda y: structure.printed_prox(y - t, step, lam, t) + t,
        "exact prox": lambda y: structure.exact_prox(y - t, step, lam, t) + t,
        "constrained": lambda y: sign * torch.clamp(sign * y + lam * step, max=0),
    }
    found = {}
    for name, prox_of in maps.items():
        y = torch.zeros(1, n, dtype=torch.float64)
        for _ in range(steps):
            y = prox_of(y - step * problem.grad(y))
        found[name] = float(problem.objective(y))
    return found
