"""Problems with an operator for A: the same answers as with the matrix it stands for, through every door."""

import copy

import numpy as np
import pytest
import scipy.sparse
import torch
from operator_cases import CASES, made

import sureprox as sp
from helpers import F64, lam_max, normal
from sureprox.advice.features import has_features
from sureprox.many.labels import problem_digest
from sureprox.many.memory import memory_needed
from sureprox.problems import L1, LeastSquares, Logistic, Problem, WeightedL1, WeightedLeastSquares
from sureprox.problems import operators as ops
from sureprox.problems.forms import Loss, form_of, loss_of
from sureprox.problems.free import free_gap

SPARSE = scipy.sparse.random(40, 60, 0.2, random_state=3, format="csr")
WEIGHTS = normal(3, 40, seed=2).abs()
LOSSES = {
    "squares": lambda A: LeastSquares(A, normal(3, 40, seed=1)),
    "logistic": lambda A: Logistic(A, (normal(3, 40, seed=1) > 0).double()),
    "logistic, weighted": lambda A: Logistic(A, (normal(3, 40, seed=1) > 0).double(), weights=WEIGHTS),
    "weighted squares": lambda A: WeightedLeastSquares(A, normal(3, 40, seed=1), WEIGHTS),
    "weighted squares without intercept": lambda A: WeightedLeastSquares(
        A, normal(3, 40, seed=1), WEIGHTS, intercept=False
    ),
}


def pair(name: str, ratio: float = 0.1) -> tuple[Problem, Problem]:
    """The same problem with the sparse A and with the dense one."""
    f, dense = LOSSES[name](SPARSE), LOSSES[name](SPARSE.toarray())
    lam = ratio * lam_max(Problem(dense, L1(torch.zeros(3, dtype=F64))))
    return Problem(f, L1(lam)), Problem(dense, L1(lam))


@pytest.mark.parametrize("name", LOSSES)
def test_values_gradients_certificates_and_constants(name):
    sparse, dense = pair(name)
    x = normal(3, 60, seed=4)
    assert isinstance(sparse.f.A, ops.Sparse)
    ours, theirs = sparse.certificate(x), dense.certificate(x)
    for part in ("objective", "gap", "kkt", "grad"):
        torch.testing.assert_close(getattr(ours, part), getattr(theirs, part), rtol=1e-11, atol=1e-12)
    torch.testing.assert_close(sparse.lipschitz(exact=True), dense.lipschitz(exact=True), rtol=1e-11, atol=0)
    assert bool((sparse.lipschitz() >= sparse.lipschitz(exact=True)).all())


@pytest.mark.parametrize("certify", [True, "audit", "cheap", False])
@pytest.mark.parametrize("name", LOSSES)
def test_solve_finds_what_it_finds_with_the_dense_matrix(name, certify):
    sparse, dense = pair(name, 0.3)
    ours = sp.solve(sparse, tol=1e-7, certify=certify)
    theirs = sp.solve(dense, tol=1e-7)
    assert bool(ours.converged.all())
    assert bool(theirs.converged.all())
    assert int((theirs.x != 0).sum()) > 3
    torch.testing.assert_close(ours.objective, theirs.objective, rtol=2e-7, atol=0)
    torch.testing.assert_close(ours.x, theirs.x, rtol=0, atol=2e-3 * float(theirs.x.abs().max()))


@pytest.mark.parametrize("name", CASES)
def test_every_operator_in_a_lasso_problem(name):
    operator, matrix = made(name)
    b = normal(3, operator.shape[0], seed=8)
    dense = sp.lasso(matrix, b, 0.0)
    lam = 0.2 * lam_max(dense)
    ours = sp.solve(sp.lasso(operator, b, lam), tol=1e-6)
    theirs = sp.solve(sp.lasso(matrix, b, lam), tol=1e-6)
    assert bool((ours.converged & theirs.converged).all())
    assert bool((theirs.x != 0).any(1).all())
    torch.testing.assert_close(ours.objective, theirs.objective, rtol=2e-6, atol=0)


@pytest.mark.parametrize("optimizer", ["sure/lasso", "go-math-l2o/lasso"])
def test_learned_optimizers(optimizer):
    sparse, dense = pair("squares")
    ours, theirs = (sp.solve(problem, optimizer, tol=1e-7, engine="plain") for problem in (sparse, dense))
    assert bool((ours.converged & theirs.converged).all())
    torch.testing.assert_close(ours.objective, theirs.objective, rtol=2e-7, atol=0)


def test_float32_is_finished_in_float64():
    sparse, dense = pair("squares")
    solution = sp.solve(sparse.to(dtype=torch.float32), tol=1e-9)
    assert bool(solution.converged.all())
    torch.testing.assert_close(solution.objective, sp.solve(dense, tol=1e-10).objective, rtol=1e-6, atol=0)


@pytest.mark.parametrize("name", LOSSES)
def test_reference(name):
    sparse, dense = pair(name)
    ours, theirs = sp.reference(sparse), sp.reference(dense)
    torch.testing.assert_close(ours.objective, theirs.objective, rtol=1e-11, atol=0)


@pytest.mark.parametrize("name", ["squares", "logistic, weighted"])
def test_the_gap_where_coordinates_are_free(name):
    sparse, dense = pair(name)
    weights = torch.ones(60, dtype=F64)
    weights[:4] = 0
    ours, theirs = (Problem(problem.f, WeightedL1(0.05 * weights)) for problem in (sparse, dense))
    x = sp.solve(theirs, tol=1e-5).x
    gaps = free_gap(theirs, x)
    assert bool(torch.isfinite(gaps).all())
    torch.testing.assert_close(free_gap(ours, x), gaps, rtol=1e-6, atol=1e-12)


def test_derivatives_of_a_solution_are_those_of_the_dense_problem():
    gradients = []
    for A in (SPARSE, SPARSE.toarray()):
        b = normal(1, 40, seed=1).requires_grad_()
        solution = sp.solve(sp.lasso(A, b, 0.5), sp.optimizers.FISTA(restart=True), tol=1e-9, certify=False)
        assert bool(solution.converged.all())
        gradients.append(torch.autograd.grad((solution.x * normal(1, 60, seed=2)).sum(), b)[0])
    assert float(gradients[1].abs().max()) > 0.1
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-3, atol=1e-3)


def test_one_right_hand_side_and_many_lam():
    lam = torch.tensor([0.1, 0.2, 0.4], dtype=F64)
    sparse, dense = (sp.lasso(A, normal(40), lam) for A in (SPARSE, SPARSE.toarray()))
    assert sparse.batch == 3
    ours, theirs = sp.solve(sparse, tol=1e-8), sp.solve(dense, tol=1e-8)
    torch.testing.assert_close(ours.objective, theirs.objective, rtol=2e-8, atol=0)


def test_parts_of_a_batch():
    f = LeastSquares(ops.Compose(ops.Difference(6), normal(3, 6, 8), ops.Haar(8)), normal(3, 5, seed=1))
    problem = Problem(f, L1(0.1))
    x = normal(3, 8, seed=2)
    index = torch.tensor([2, 0])
    part = problem.select(index)
    assert problem.selectable
    torch.testing.assert_close(part.grad(x[index]), problem.grad(x)[index])
    assert part.f.A.batch == 2
    sparse = pair("squares")[0]
    assert sparse.select(index).f.A is sparse.f.A


def test_moved_and_converted_with_its_problem():
    problem = Problem(LeastSquares(ops.Stack(SPARSE, normal(2, 60)), normal(3, 42)), L1(0.1))
    single = problem.to(dtype=torch.float32)
    assert single.f.A.like.dtype == torch.float32
    assert single.grad(torch.zeros(3, 60)).dtype == torch.float32
    assert problem.f.A.like.dtype == F64
    assert {value.dtype for value in single.tensors()} == {torch.float32, torch.int32}
    kernel = normal(3).requires_grad_()
    assert Problem(
        LeastSquares(ops.Compose(ops.Convolution(kernel, 8), ops.Haar(8).T), normal(8)), L1(0.1)
    ).requires_grad


def test_operators_of_any_dtype_take_that_of_b():
    for dtype in (torch.float32, F64):
        problem = sp.lasso(ops.Compose(ops.Difference(16), ops.Haar(16).T), normal(3, 15, dtype=dtype), 0.3)
        assert problem.dtype == problem.lipschitz().dtype == problem.lipschitz(exact=True).dtype == dtype
        assert bool(sp.solve(problem).converged.all())
    assert Logistic(ops.Difference(4), [0, 1, 1]).like.dtype == torch.get_default_dtype()


def test_the_plain_path_is_taken_and_named():
    sparse, dense = pair("squares")
    form = form_of(sparse)
    assert (form.loss, form.m, form.own_matrices) == (Loss.OWN, 0, False)
    assert loss_of(sparse) is Loss.OWN
    assert form_of(dense).loss is Loss.SQUARES
    assert not has_features(sparse)
    assert form_of(Problem(LeastSquares(ops.Dense(SPARSE.toarray()), normal(40)), L1(0.1))).loss is Loss.SQUARES


def test_memory_of_a_batch_can_be_counted():
    needed = memory_needed(pair("squares")[0])
    assert needed.fixed > 0
    assert needed.each > 8 * 100


def test_digests_know_operators_apart():
    b = normal(15)
    made_of = [
        ops.Difference((3, 4)),
        ops.Difference((4, 3)),
        ops.Compose(ops.Difference(16), ops.Haar(16)),
        ops.Compose(ops.Difference(16), ops.Haar(16, levels=2)),
        ops.Compose(ops.Difference(16), ops.Haar(16).T),
        ops.Function(torch.neg, torch.neg, (15, 15)),
        ops.Function(torch.clone, torch.clone, (15, 15)),
    ]
    problems = [sp.lasso(A, b if A.shape[0] == 15 else normal(17), 0.1) for A in made_of]
    digests = [problem_digest(problem) for problem in problems]
    assert len(set(digests)) == len(made_of)
    assert digests == [problem_digest(copy.deepcopy(problem)) for problem in problems]


class Squares:
    """Somebody's own f."""

    def __init__(self, A, b):
        self.A, self.b = A, b

    def value(self, x):
        return self.A.residual(x, self.b).square().sum(1) / 2

    def grad(self, x):
        return self.A.adjoint(self.A.residual(x, self.b))

    def lipschitz(self):
        return self.A.gram_norm(len(self.b))


def test_a_foreign_smooth_part_may_hold_an_operator():
    sparse, dense = pair("squares")
    own = Problem(Squares(ops.Sparse(SPARSE), dense.f.b), sparse.r)
    assert own.n == 60
    single = own.to(dtype=torch.float32)
    assert single.grad(torch.zeros(3, 60)).dtype == torch.float32
    solution = sp.solve(own, sp.optimizers.FISTA(restart=True), tol=1e-5, certify=False, max_iter=3000)
    torch.testing.assert_close(solution.objective, sp.solve(dense, tol=1e-8).objective, rtol=1e-4, atol=0)


class Scaled(ops.Operator):
    """Somebody's own operator: z = d x."""

    def __init__(self, d):
        self.d = d

    @property
    def shape(self):
        return len(self.d), len(self.d)

    def forward(self, x):
        return self.d * x

    def adjoint(self, z):
        return self.d * z


def test_an_own_operator_needs_a_shape_and_two_products():
    d = 1 + normal(9).abs()
    problem, dense = (sp.lasso(A, normal(3, 9, seed=1), 0.2) for A in (Scaled(d), torch.diag(d)))
    np.testing.assert_allclose(problem.lipschitz(exact=True), [float(d.max()) ** 2] * 3, rtol=1e-12)
    torch.testing.assert_close(sp.solve(problem).objective, sp.solve(dense).objective, rtol=2e-6, atol=0)
    assert problem.select(torch.tensor([1])).f.A is problem.f.A
