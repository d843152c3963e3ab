"""A user's own smooth part and penalty: what the abstract classes ask for is all that solving needs."""

import pytest
import torch
from scipy.optimize import nnls

import sureprox as sp
from helpers import F64, normal, refused
from sureprox.optimizers import FISTA, ISTA
from sureprox.problems import L1, LeastSquares


class Huber(sp.Smooth):
    """f(x) = sum_i w_i h(a_i'x - b_i), h quadratic within 1 and linear beyond."""

    batched = ("A", "b", "w")

    def __init__(self, A, b, w) -> None:
        self.A, self.b, self.w = A, b, w

    @property
    def shape(self):
        return self.A.shape[0], self.A.shape[2]

    def residual(self, x):
        return torch.einsum("bmn,bn->bm", self.A, x) - self.b

    def value(self, x):
        size = self.residual(x).abs()
        return (self.w * torch.where(size <= 1, size**2 / 2, size - 0.5)).sum(1)

    def grad(self, x):
        return torch.einsum("bmn,bm->bn", self.A, self.w * self.residual(x).clamp(-1, 1))

    def lipschitz(self, exact=False):
        return torch.linalg.matrix_norm(self.w.sqrt().unsqueeze(2) * self.A, ord=2).square()


class NonNegative(sp.Penalty):
    """r(x) = 0 where x >= 0, infinite elsewhere."""

    def value(self, x):
        return torch.where((x >= 0).all(1), 0.0, torch.inf).to(x.dtype)

    def prox(self, v, step):
        return v.clamp(min=0)

    def subdiff(self, x):
        return torch.where(x > 0, 0.0, -torch.inf).to(x.dtype), torch.zeros_like(x)


class ElasticNet(sp.Penalty):
    """r(x) = lam |x|_1 + mu/2 |x|^2, one weight pair per instance."""

    batched = ("lam", "mu")

    def __init__(self, lam, mu) -> None:
        self.lam, self.mu = lam, mu

    def value(self, x):
        return self.lam * x.abs().sum(1) + self.mu / 2 * x.square().sum(1)

    def prox(self, v, step):
        lam, mu = self.lam.unsqueeze(1), self.mu.unsqueeze(1)
        return torch.sign(v) * torch.relu(v.abs() - lam * step) / (1 + mu * step)

    def subdiff(self, x):
        lam, slope = self.lam.unsqueeze(1), self.mu.unsqueeze(1) * x
        return slope + lam * torch.where(x > 0, 1.0, -1.0), slope + lam * torch.where(x < 0, -1.0, 1.0)


def huber(batch: int = 4) -> Huber:
    return Huber(normal(batch, 15, 6), 3 * normal(batch, 15, seed=1), normal(batch, 15, seed=2).abs())


def elastic_net(batch: int = 4) -> ElasticNet:
    return ElasticNet(normal(batch, seed=3).abs(), normal(batch, seed=4).abs())


@pytest.mark.parametrize("optimizer", [ISTA(), FISTA(restart=True)], ids=["ista", "fista"])
@pytest.mark.parametrize("shift", [None, 5.0])
def test_own_problem_converges_by_kkt(optimizer, shift):
    problem = sp.Problem(huber(), elastic_net())
    problem = problem if shift is None else problem.shifted(shift)
    assert not problem.has_duality_gap
    solution = sp.solve(problem, optimizer, max_iter=20000, tol=1e-9)
    assert solution.converged.all()
    assert torch.isinf(solution.gap).all()
    assert (problem.kkt_residual(solution.x) <= 1e-9 * problem.scale()[1]).all()
    for scale in (1e-3, 0.1, 1.0):
        other = solution.x + scale * normal(4, 6, seed=9)
        assert (problem.objective(other) > solution.objective).all()


def test_own_problem_stops_each_instance_alone():
    problem = sp.Problem(huber(), elastic_net())
    together = sp.solve(problem, ISTA(), max_iter=2000, tol=1e-6)
    assert len(set(together.iterations.tolist())) > 1
    for i in range(4):
        alone = sp.solve(problem.select(torch.tensor([i])), ISTA(), max_iter=2000, tol=1e-6)
        torch.testing.assert_close(alone.x[0], together.x[i], rtol=1e-12, atol=1e-14)
        assert alone.iterations[0] == together.iterations[i]


def test_own_problem_has_a_reference_by_kkt():
    problem = sp.Problem(huber(), elastic_net())
    best = sp.reference(problem, tol=1e-11)
    assert (problem.kkt_residual(best.x) <= 1e-11 * problem.scale()[1]).all()
    assert torch.isinf(best.gap).all()


def test_nonnegative_least_squares_agrees_with_scipy():
    f = LeastSquares(normal(3, 15, 6), normal(3, 15, seed=1))
    solution = sp.solve(sp.Problem(f, NonNegative()), FISTA(restart=True), max_iter=5000, tol=1e-10)
    assert solution.converged.all()
    for i in range(3):
        expected, _ = nnls(f.A[i].numpy(), f.b[i].numpy())
        torch.testing.assert_close(solution.x[i], torch.from_numpy(expected), rtol=0, atol=1e-8)
    assert (solution.x == 0).any()


def test_own_smooth_part_with_l1_and_own_penalty_with_least_squares():
    for problem in (
        sp.Problem(huber(), L1(0.3)),
        sp.Problem(LeastSquares(normal(4, 15, 6), normal(4, 15, seed=1)), elastic_net()),
    ):
        solution = sp.solve(problem, FISTA(restart=True), max_iter=5000, tol=1e-9)
        assert solution.converged.all()
        x = solution.x
        refused(lambda problem=problem, x=x: problem.duality_gap(x), "no duality gap is known", "use kkt_residual")


def test_conversion_moves_every_tensor():
    problem = sp.Problem(huber(), elastic_net()).to(dtype=torch.float32)
    held = [*vars(problem.f).values(), *vars(problem.r).values()]
    assert {value.dtype for value in held} == {torch.float32}
    assert problem.dtype == torch.float32
    solution = sp.solve(problem, FISTA(restart=True), max_iter=3000, tol=1e-4)
    assert solution.x.dtype == (torch.float64 if bool(solution.refined.any()) else torch.float32)
    assert solution.converged.all()


def test_own_gradient_is_flowing():
    b = (3 * normal(2, 15, seed=1)).requires_grad_()
    problem = sp.Problem(Huber(normal(2, 15, 6), b, torch.ones(2, 15, dtype=F64)), elastic_net(2))
    assert problem.requires_grad
    (gradient,) = torch.autograd.grad(sp.solve(problem, ISTA(), max_iter=20).x.sum(), b)
    assert gradient.abs().sum() > 0


def test_an_unfinished_part_cannot_be_made():
    class Half(sp.Penalty):
        def value(self, x):
            return x.sum(1)

    with pytest.raises(TypeError, match="abstract"):
        Half()


class OwnFit:
    """Nothing but the three methods of the contract and the data."""

    def __init__(self, A, b):
        self.A, self.b = A, b

    def value(self, x):
        return 0.5 * (torch.einsum("bmn,bn->bm", self.A, x) - self.b).square().sum(1)

    def grad(self, x):
        return torch.einsum("bmn,bm->bn", self.A, torch.einsum("bmn,bn->bm", self.A, x) - self.b)

    def lipschitz(self):
        return torch.linalg.matrix_norm(self.A, 2).square()


class OwnPenalty:
    def value(self, x):
        return 0.1 * x.abs().sum(1)

    def prox(self, v, step):
        return torch.sign(v) * torch.relu(v.abs() - 0.1 * step)

    def subdiff(self, x):
        slope, kink = 0.1 * torch.sign(x), 0.1 * (x == 0)
        return slope - kink, slope + kink


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_any_object_with_the_three_methods_will_do(dtype):
    generator = torch.Generator().manual_seed(0)
    A = torch.randn(4, 10, 6, generator=generator, dtype=dtype)
    b = torch.randn(4, 10, generator=generator, dtype=dtype)
    ours, theirs = sp.lasso(A, b, 0.1), sp.Problem(OwnFit(A, b), OwnPenalty())
    assert (theirs.batch, theirs.n, theirs.dtype) == (4, 6, dtype)
    tol = 1e-9 if dtype is torch.float64 else 1e-4
    one = sp.solve(theirs, sp.optimizers.FISTA(restart=True), tol=tol)
    other = sp.solve(ours, sp.optimizers.FISTA(restart=True), tol=tol)
    assert list(one.status) == [sp.Status.CONVERGED] * 4
    torch.testing.assert_close(one.x, other.x, rtol=0, atol=1e-6 if dtype is torch.float64 else 1e-2)
    assert torch.isinf(one.gap).all()  # no duality gap is known for them


def test_own_parts_that_lack_something_are_refused():
    A, b = torch.ones(1, 2, 3), torch.ones(1, 2)
    with pytest.raises(sp.InputError, match=r"^f is a OwnPenalty without grad, lipschitz; it needs value, grad, lip"):
        sp.Problem(OwnPenalty(), OwnPenalty())
    with pytest.raises(sp.InputError, match=r"^r is a OwnFit without prox, subdiff; it needs value, prox, subdiff$"):
        sp.Problem(OwnFit(A, b), OwnFit(A, b))
    nameless = OwnFit(A, b)
    nameless.matrix, nameless.A = A, None
    nameless.lipschitz = lambda: torch.ones(1)
    with pytest.raises(sp.InputError, match="does not say how many coordinates it has; give it an attribute n"):
        sp.Problem(nameless, OwnPenalty())


WRONG = {
    "value": [lambda x: x.sum(), lambda x: x.sum(1, keepdim=True), lambda x: 1.0],
    "grad": [lambda x: x.sum(1), lambda x: x[:, :-1], lambda x: x.tolist()],
    "lipschitz": [lambda: torch.ones(()), lambda: torch.ones(3), lambda: 3.0],
    "prox": [lambda v, step: v.sum(1), lambda v, step: None],
    "subdiff": [lambda x: x, lambda x: (x, x.sum(1)), lambda x: (x, 0.0), lambda x: None],
}


def spoiled(part, method, wrong):
    """The same part, but for one of its methods; its batch is never cut."""
    own = {method: lambda self, *given, **options: wrong(*given), "batched": None}
    part.__class__ = type(f"Wrong{type(part).__name__}", (type(part),), own)
    return part


@pytest.mark.parametrize("certify", [True, "audit", "cheap", False])
@pytest.mark.parametrize(("method", "wrong"), [(method, wrong) for method in WRONG for wrong in WRONG[method]])
def test_a_method_that_returns_something_else_is_one_line(method, wrong, certify):
    smooth = hasattr(Huber, method) and method != "value"
    for of_f in {smooth} if method != "value" else (True, False):
        f = spoiled(huber(), method, wrong) if of_f else huber()
        r = elastic_net() if of_f else spoiled(elastic_net(), method, wrong)
        name = "WrongHuber" if of_f else "WrongElasticNet"
        refused(lambda f=f, r=r: sp.solve(sp.Problem(f, r), max_iter=3, certify=certify), f"{name}.{method} returned")


def test_an_error_in_the_code_of_a_part_is_raised_as_it_is():
    f = spoiled(huber(), "value", lambda x: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        sp.solve(sp.Problem(f, elastic_net()))


@pytest.mark.parametrize("certify", [True, "audit", "cheap", False])
@pytest.mark.parametrize("method", ["value", "grad"])
def test_what_is_not_a_number_is_told_as_infinite_and_solves_nothing(method, certify):
    """One instance alone; the others of its batch are solved."""
    true = getattr(huber(), method)

    def sometimes(x):
        found = true(x.double()).clone()
        found[1] = torch.nan
        return found

    solution = sp.solve(sp.Problem(spoiled(huber(), method, sometimes), elastic_net()), max_iter=500, certify=certify)
    assert solution.converged.tolist() == [True, False, True, True]
    for name in ("x", "objective", "gap", "kkt", "rate", "credit", "moved"):
        assert not torch.isnan(getattr(solution, name)).any(), name
    assert torch.isinf((solution.objective if method == "value" else solution.kkt)[1])
