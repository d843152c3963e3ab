"""The problems people name, against scikit-learn and scipy."""

import numpy as np
import pytest
import torch
from scipy.optimize import least_squares, lsq_linear, nnls
from sklearn import linear_model, svm

import sureprox as sp
from helpers import F64, labels, normal, refused
from sureprox.problems import Huber, LeastSquares, Logistic, Poisson, Problem, Softmax, SquaredHinge
from sureprox.problems.penalties import Box, Separable, Zero

B, M, N = 3, 20, 5
A, b = normal(B, M, N), normal(B, M, seed=1) + 1
EACH = torch.tensor([0.5, 1.0, 2.0], dtype=F64)


def close(problem: Problem, coefficients: list[np.ndarray]) -> None:
    """The solution has the objective of theirs, or a lower one by the error that they leave."""
    solution = sp.solve(problem, tol=1e-9, max_iter=20_000)
    assert solution.converged.all()
    theirs = problem.objective(torch.from_numpy(np.stack(coefficients)).to(F64))
    assert (solution.objective <= theirs * (1 + 1e-9)).all()
    torch.testing.assert_close(solution.objective, theirs, rtol=1e-7, atol=0)
    assert (solution.x != 0).any(1).all()


def test_elastic_net_is_that_of_scikit_learn():
    found = [
        linear_model.ElasticNet(
            alpha=(of + 0.3) / M, l1_ratio=of / (of + 0.3), fit_intercept=False, tol=1e-12, max_iter=100_000
        )
        .fit(A[i], b[i])
        .coef_
        for i, of in enumerate(EACH.tolist())
    ]
    close(sp.elastic_net(A, b, EACH, 0.3), found)


def test_nonnegative_is_nnls_and_bounds_are_lsq_linear():
    close(sp.nonnegative(A, b), [nnls(A[i].numpy(), b[i].numpy())[0] for i in range(B)])
    boxed = Problem(LeastSquares(A, b), Box(-0.1, 0.2))
    close(boxed, [lsq_linear(A[i].numpy(), b[i].numpy(), (-0.1, 0.2), tol=1e-14).x for i in range(B)])


def test_group_lasso_with_groups_of_one_is_a_lasso_and_one_group_has_a_formula():
    alone = sp.solve(sp.group_lasso(A, b, [[j] for j in range(N)], EACH), tol=1e-10)
    torch.testing.assert_close(alone.objective, sp.solve(sp.lasso(A, b, EACH), tol=1e-10).objective, rtol=1e-9, atol=0)
    Q = torch.linalg.qr(A).Q  # orthonormal columns: x = q max(1 - lam / |q|, 0), q = Q'b
    q = (Q.mT @ b.unsqueeze(2)).squeeze(2)
    known = q * (1 - 0.3 / q.norm(dim=1, keepdim=True)).clamp(min=0)
    found = sp.solve(sp.group_lasso(Q, b, torch.zeros(N, dtype=torch.int64), 0.3), tol=1e-10)
    torch.testing.assert_close(found.x, known, rtol=1e-5, atol=1e-6)
    assert (known != 0).all()


def test_huber_and_poisson_and_softmax_and_hinge_are_those_of_others():
    outliers = b.clone()
    outliers[:, ::5] += 20
    found = []
    for i in range(B):
        residual = lambda x, i=i: A[i].numpy() @ x - outliers[i].numpy()  # noqa: E731
        found.append(least_squares(residual, np.zeros(N), loss="huber", f_scale=0.7, xtol=1e-15, ftol=1e-15).x)
    close(Problem(Huber(A, outliers, 0.7), Zero()), found)
    counts = torch.poisson(torch.exp(0.3 * A.sum(2)), generator=torch.Generator().manual_seed(0))
    poisson = linear_model.PoissonRegressor(alpha=0.1, fit_intercept=False, tol=1e-12, max_iter=1000)
    close(Problem(Poisson(A, counts), Separable(l2=0.1 * M)), [poisson.fit(A[i], counts[i]).coef_ for i in range(B)])
    classes = (normal(B, M, seed=3).abs() * 1.5).floor().clamp(max=2)
    multinomial = linear_model.LogisticRegression(C=2.0, fit_intercept=False, tol=1e-10, max_iter=1000)
    found = [multinomial.fit(A[i], classes[i]).coef_.ravel() for i in range(B)]
    close(Problem(Softmax(A, classes, 3), Separable(l2=0.5)), found)
    y = labels(B, M, seed=4)
    binary = [multinomial.fit(A[i], y[i]).coef_.ravel() for i in range(B)]
    close(Problem(Logistic(A, y), Separable(l2=0.5 / M)), binary)
    machine = svm.LinearSVC(C=0.5, dual=False, fit_intercept=False, tol=1e-10, max_iter=10_000)
    found = [machine.fit(A[i], y[i]).coef_.ravel() for i in range(B)]
    close(Problem(SquaredHinge(A, y), Separable(l2=2.0)), found)  # 1/2 |x|^2 + C f = C (f + 1/(2 C) |x|^2)


def test_a_shared_matrix_is_spread_over_the_sizes():
    shared = sp.elastic_net(A[0], b[0], EACH, 0.3)
    assert shared.batch == 3
    own = sp.elastic_net(A[0].expand(3, M, N).contiguous(), b[0].expand(3, M), EACH, 0.3)
    x = normal(3, N, seed=5)
    torch.testing.assert_close(shared.objective(x), own.objective(x))
    assert sp.elastic_net(A[0], b[0], 1.0, EACH).batch == 3
    assert sp.nonnegative(A[0], b[0], EACH).batch == 3
    assert sp.group_lasso(A[0], b[0], [[0, 1]], EACH).batch == 3


@pytest.mark.parametrize("name", ["l1", "l2"])
def test_bad_sizes_of_an_elastic_net_are_refused(name):
    def with_size(value):
        return lambda: sp.elastic_net(A, b, **({"l1": 1.0, "l2": 1.0} | {name: value}))

    refused(with_size(-1.0), f"{name} is -1", ">= 0")
    refused(with_size(float("nan")), f"{name} has 3 entries that are NaN")
    refused(with_size(EACH[:2]), f"{name} has shape (2,)", "(3,)")
    refused(with_size(EACH.float()), f"{name} has dtype torch.float32")
    refused(with_size(EACH.to(torch.complex128)), f"{name} has dtype torch.complex128")
    refused(with_size("a"), f"{name} is a str")
    refused(with_size(np.ma.masked_equal(np.ones(3), 1)), f"{name} has 3 masked entries")


def test_bad_input_of_the_others_is_refused():
    refused(lambda: sp.elastic_net(A[0], b[0], EACH[:2], EACH), "l2 has shape (3,)")
    refused(lambda: sp.nonnegative(A, b, -1.0), "l1 is -1")
    refused(lambda: sp.nonnegative(A, b[:, 1:]), "b has shape (3, 19)")
    refused(lambda: sp.group_lasso(A, b, [[0, N]], 1.0), "name 6 coordinates")
    refused(lambda: sp.group_lasso(A, b, [[0]], -1.0), "lam is -1")
    refused(lambda: sp.group_lasso(A, b, [[0]], 1.0, weights=[1.0, 2.0]), "weights has shape (2,)", "1 groups")
