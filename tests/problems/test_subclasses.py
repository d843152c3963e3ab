"""A certificate belongs to the class that proves it: what a subclass inherits, and what it does not."""

from typing import Self

import pytest
import torch

import sureprox as sp
from engines import kernels
from helpers import F64, normal, random_problem
from sureprox.optimizers import FISTA
from sureprox.problems import L1, LeastSquares, Logistic, WeightedL1, Zero
from sureprox.problems.blocks import BLOCKS
from sureprox.problems.forms import form_of
from sureprox.problems.losses import Clipped, Pointwise, Quadratic
from sureprox.problems.smooth import LinearModel
from sureprox.support.newton import can_polish


class ElasticNet(L1):
    """r(x) = lam |x|_1 + mu/2 |x|^2: of the parent it keeps lam."""

    mu = 2.0

    def value(self, x):
        return super().value(x) + self.mu / 2 * x.square().sum(1)

    def prox(self, v, step):
        return super().prox(v, step) / (1 + self.mu * step)

    def subdiff(self, x):
        low, high = super().subdiff(x)
        return low + self.mu * x, high + self.mu * x


class Huber(LeastSquares):
    """f(x) = sum_i h(a_i'x - b_i), h quadratic within 1 and linear beyond."""

    def value(self, x):
        size = self.inner(x).abs()
        return torch.where(size <= 1, size**2 / 2, size - 0.5).sum(1)

    def grad(self, x):
        return self.map.adjoint(self.inner(x).clamp(-1, 1))


class Doubled(LeastSquares):
    """f(x) = |A x - b|^2, by another value of phi."""

    def value_at(self, z):
        return 2 * super().value_at(z)

    def grad_at(self, z):
        return 2 * super().grad_at(z)

    def lipschitz(self, exact=False):
        return 2 * super().lipschitz(exact)


def data() -> tuple[torch.Tensor, torch.Tensor]:
    return normal(4, 20, 10), 3 * normal(4, 20, seed=1)


CHANGED = {
    "penalty": lambda: sp.Problem(LeastSquares(*data()), ElasticNet(2.0)),
    "smooth part": lambda: sp.Problem(Huber(*data()), L1(2.0)),
    "function of z": lambda: sp.Problem(Doubled(*data()), L1(2.0)),
    "both": lambda: sp.Problem(Huber(*data()), ElasticNet(2.0)),
}


@pytest.mark.parametrize("certify", [True, "audit", "cheap", False])
@pytest.mark.parametrize("case", CHANGED)
def test_a_subclass_that_changes_the_function_is_solved_for_what_it_is(case, certify):
    problem = CHANGED[case]()
    assert not problem.has_duality_gap
    solution = sp.solve(problem, FISTA(restart=True), tol=1e-6, max_iter=4000, certify=certify)
    assert solution.converged.all()
    assert torch.isinf(solution.gap).all()
    torch.testing.assert_close(solution.objective, problem.objective(solution.x))
    x = problem.start()
    step = problem.step_size().unsqueeze(1)
    for _ in range(600):  # plain proximal steps, by nothing but value, grad and prox
        x = problem.r.prox(x - step * problem.f.grad(x), step)
    best = problem.objective(x)
    assert (solution.objective - best <= 1e-6 * best).all()


@pytest.mark.parametrize("case", CHANGED)
def test_no_closed_formula_of_a_parent_is_used_for_a_subclass_that_changes_the_function(case):
    problem = CHANGED[case]()
    f, r, x, y = problem.f, problem.r, normal(4, 10, seed=5), normal(4, 10, seed=6)
    torch.testing.assert_close(r.difference(x, y), r.value(x) - r.value(y))
    value, gradient = f.value_and_grad(x)
    torch.testing.assert_close(value, f.value(x))
    torch.testing.assert_close(gradient, f.grad(x))
    torch.testing.assert_close(problem.certificate(x).objective, problem.objective(x))
    torch.testing.assert_close(problem.certificate(x).grad, f.grad(x))
    assert not can_polish(form_of(problem))
    found = kernels(problem)
    assert (found.certificate, found.gradient, found.follow, found.points) == (None, None, None, None)


def test_a_mixin_that_changes_the_value_takes_the_shared_product_away():
    class Shifted:
        def value(self, x):
            return super().value(x) + 5

    class Raised(Shifted, LeastSquares):
        pass

    f, x = Raised(*data()), normal(4, 10, seed=5)
    torch.testing.assert_close(f.value_and_grad(x)[0], f.value(x))


@pytest.mark.parametrize("parent", [L1, WeightedL1, Zero, LeastSquares, Logistic])
def test_a_subclass_with_a_helper_only_loses_its_gap_and_stays_right(parent):
    class Helped(parent):
        def helper(self) -> Self:
            return self

    A, b = data()
    f, r = LeastSquares(A, b), L1(2.0)
    if parent is LeastSquares:
        f = Helped(A, b)
    elif parent is Logistic:
        f, r = Helped(A, (b > 0).to(F64)), L1(0.05)
    else:
        r = Helped() if parent is Zero else Helped(2.0 if parent is L1 else torch.full((10,), 2.0, dtype=F64))
    own = sp.Problem(f, r)
    ours = sp.Problem(
        parent.trusted(**vars(f)) if f.__class__ is Helped else f, r if f.__class__ is Helped else L1(2.0)
    )
    assert not own.has_duality_gap
    assert own.selectable
    solution = sp.solve(own, FISTA(restart=True), tol=1e-8, max_iter=4000)
    assert solution.converged.all()
    if parent is not Zero:
        best = sp.reference(ours).objective
        assert ((solution.objective - best).abs() <= 1e-8 * best).all()


def test_a_subclass_that_names_the_proof_again_has_it():
    class Named(LeastSquares):
        fenchel_young = LeastSquares.fenchel_young

    problem = random_problem("lasso")
    named = sp.Problem(Named(problem.f.A, problem.f.b), problem.r)
    x = normal(problem.batch, problem.n, seed=3)
    assert named.has_duality_gap
    torch.testing.assert_close(named.duality_gap(x), problem.duality_gap(x))


def test_every_concrete_class_of_the_package_states_its_proof_itself():
    abstract = {LinearModel, Quadratic, Pointwise, Clipped}
    kinds = [k for k in (*_below(sp.Smooth), *_below(sp.Penalty)) if k.__module__.startswith("sureprox.problems")]
    stated = {k.__name__ for k in kinds if "fenchel_young" in vars(k) and k not in abstract}
    squares, counts = {"LeastSquares", "WeightedLeastSquares", "Huber", "Quantile"}, {"Poisson"}
    labels = {"Logistic", "SquaredHinge", "Softmax"}
    separable = {"Separable", "L1", "WeightedL1", "ElasticNet", "NonNegative", "Box", "Zero"}
    assert stated == squares | counts | labels | separable | {kind.__name__ for kind in BLOCKS}


def _below(kind: type) -> list[type]:
    return [one for child in kind.__subclasses__() for one in (child, *_below(child))]


# --- tensors that a subclass adds -------------------------------------------------------------------------------------


class OwnMu(ElasticNet):
    """mu is one per instance, which the parent's `batched` does not say."""

    def __init__(self, lam, mu) -> None:
        super().__init__(lam)
        self.mu = mu

    def value(self, x):
        return L1.value(self, x) + self.mu / 2 * x.square().sum(1)

    def prox(self, v, step):
        return L1.prox(self, v, step) / (1 + self.mu.unsqueeze(1) * step)

    def subdiff(self, x):
        low, high = L1.subdiff(self, x)
        return low + self.mu.unsqueeze(1) * x, high + self.mu.unsqueeze(1) * x


class CutMu(OwnMu):
    batched = ("lam", "mu")


def test_a_tensor_that_the_inherited_batched_does_not_name_keeps_the_batch_whole():
    mu, lam = torch.tensor([0.1, 1.0, 10.0, 2.0], dtype=F64), torch.tensor([50.0, 2.0, 2.0, 2.0], dtype=F64)
    whole, cut = (sp.Problem(LeastSquares(*data()), kind(lam, mu)) for kind in (OwnMu, CutMu))
    assert not whole.selectable
    assert cut.selectable
    assert torch.equal(cut.select(torch.tensor([2])).r.mu, mu[2:3])
    scalar = sp.Problem(LeastSquares(*data()), CutMu(2.0, mu)).select(torch.tensor([2]))
    assert torch.equal(scalar.r.mu, mu[2:3])  # though the parent has nothing to cut where lam is a number
    one, other = (sp.solve(p, FISTA(restart=True), max_iter=3000, tol=1e-9) for p in (whole, cut))
    assert one.converged.all()
    torch.testing.assert_close(one.x, other.x, rtol=1e-6, atol=1e-8)


# --- precision and device ---------------------------------------------------------------------------------------------


class Complex(sp.Smooth):
    """f(x) = 1/2 |F_I x - c|^2, F of complex numbers, on the rows I; `only` leaves some rows out."""

    def __init__(self, F, c, rows, only) -> None:
        self.rows, self.only, self.F, self.c = rows, only, F, c

    @property
    def shape(self):
        return self.c.shape[0], self.F.shape[1]

    def residual(self, x):
        chosen = self.F[self.rows]
        return torch.where(self.only, x.to(chosen.dtype) @ chosen.mT - self.c, 0)

    def value(self, x):
        return 0.5 * self.residual(x).abs().square().sum(1)

    def grad(self, x):
        return (self.residual(x) @ self.F[self.rows].conj()).real

    def lipschitz(self, exact=False):
        return torch.linalg.matrix_norm(self.F[self.rows], ord=2).square().expand(self.c.shape[0])


class Foreign:
    """The same as an object of no class of ours."""

    def __init__(self, inner: Complex) -> None:
        vars(self).update(vars(inner))
        self.n = inner.shape[1]

    shape = property(lambda self: (self.c.shape[0], self.n))
    residual, value, grad, lipschitz = Complex.residual, Complex.value, Complex.grad, Complex.lipschitz


@pytest.mark.parametrize("foreign", [False, True])
def test_complex_index_and_bool_tensors_keep_what_they_hold_in_float64(foreign):
    F = torch.complex(normal(12, 6), normal(12, 6, seed=1)).to(torch.complex64)
    c = torch.complex(normal(3, 8, seed=2), normal(3, 8, seed=3)).to(torch.complex64)
    rows, only = torch.tensor([0, 2, 3, 5, 6, 8, 9, 11]), torch.arange(8) < 7
    f = Complex(F, c, rows, only)
    problem = sp.Problem(Foreign(f) if foreign else f, L1(0.1))
    assert problem.dtype == torch.float32
    exact = problem.to(dtype=F64)
    held = vars(exact.f.inner) if foreign else vars(exact.f)
    kinds = {"F": torch.complex128, "c": torch.complex128, "rows": torch.int64, "only": torch.bool}
    assert {name: held[name].dtype for name in kinds} == kinds
    x = normal(3, 6, seed=4)
    double = Complex(F.to(torch.complex128), c.to(torch.complex128), rows, only)
    torch.testing.assert_close(exact.f.value(x), double.value(x), rtol=1e-12, atol=0)
    solution = sp.solve(problem, FISTA(restart=True), tol=1e-4)
    assert solution.converged.all()
    best = sp.solve(sp.Problem(double, L1(0.1)), FISTA(restart=True), tol=1e-10, max_iter=5000)
    assert best.converged.all()
    assert (solution.objective - best.objective <= 1e-4 * best.objective).all()


def test_a_smooth_part_without_any_floats_is_refused():
    class Nothing(sp.Smooth):
        shape = (1, 2)

        def value(self, x):
            return x.sum(1)

        def grad(self, x):
            return torch.ones_like(x)

        def lipschitz(self, exact=False):
            return torch.zeros(1)

    with pytest.raises(sp.InputError, match="Nothing holds no tensor of floats"):
        sp.Problem(Nothing(), Zero())
