"""Sharp cases of the smooth statements, where the constants can be read off."""

import pytest
import torch
from torch import Tensor

from sureprox.audit import MathL2O, corollary1, lemma1
from sureprox.audit.counterexamples import constant, linear, quadratic, runs, tensor
from sureprox.problems import Problem, Zero


class Huber:
    """L/2 x^2 where |x| <= width, L width |x| - L width^2 / 2 elsewhere; L = 1, n = 1."""

    n = 1

    def __init__(self, width: float) -> None:
        self.width = width

    def value(self, x: Tensor) -> Tensor:
        inside = x.abs() <= self.width
        return torch.where(inside, x.square() / 2, self.width * x.abs() - self.width**2 / 2).sum(1)

    def grad(self, x: Tensor) -> Tensor:
        return x.clamp(-self.width, self.width)

    def lipschitz(self) -> Tensor:
        return torch.ones(1, dtype=torch.float64)


@pytest.mark.parametrize("steps", [1, 3, 10])
def test_gradient_descent_attains_the_sharp_rate(steps: int) -> None:
    """F(x_K) - F* = L D_0^2 / (4K + 2) for the Huber function of width D_0 / (2K + 1)."""
    problem = Problem(Huber(1 / (2 * steps + 1)), Zero())
    gradient = MathL2O(linear([[0, 0, 0]], 0.5), linear([[0, 0.5, 0]]))
    check = corollary1(runs(gradient, tensor(1), problem, steps=steps))
    assert check.count("printed") == 1
    assert float(check.lhs) == pytest.approx(1 / (4 * steps + 2), rel=1e-12)
    assert float(check.corrected.value) == pytest.approx(float(check.lhs), rel=1e-12)
    assert float(check.printed.value) == pytest.approx(1 / (2 * steps), rel=1e-12)
    assert check.worst("free") >= -1e-12


@pytest.mark.parametrize(("n", "lam"), [(1, 1.0), (2, 0.58), (2, 0.6), (3, 0.26), (3, 0.28), (4, 0.01), (5, 0.0)])
def test_lemma1_breaks_exactly_where_sqrt_n_plus_lam_L_exceeds_2(n: int, lam: float) -> None:
    """f = |x|^2/2, x = (1, ..., 1): the corner of the box is N2 = c sqrt(n) (1, ..., 1), c = cos(angle) = 1."""
    one = torch.ones(1, n, dtype=torch.float64)
    model = MathL2O(constant(lam * one, 3 * n), constant(n**0.5 * one, 3 * n))
    check = lemma1(runs(model, one, quadratic(n=n)))
    assert check.count("printed") == 1
    assert (check.worst("printed") < -1e-12) == (n**0.5 + lam > 2 + 1e-12)


def test_lemma1_says_nothing_outside_its_box() -> None:
    model = MathL2O(constant(tensor(0.5, 0.5), 6), constant(tensor(-0.1, 0.2), 6))
    check = lemma1(runs(model, tensor(1, 1), quadratic(n=2)))
    assert check.count("printed") == 0
    assert check.count("free") == 1
