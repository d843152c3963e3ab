"""The peers that `advise` races against: they solve our very problem, and where nobody does it is said."""

import sys
import types

import numpy as np
import pytest
import torch

import sureprox as sp
from helpers import F64, normal
from sureprox.advice.peers import externals
from sureprox.advice.solvers import restarted_fista, suitable
from sureprox.problems import LeastSquares, Separable
from sureprox.solve.stopping import StoppingRule

pytest.importorskip("sklearn")
A, B = normal(3, 40, 8), normal(3, 40, seed=1)
LABELS, COUNTS = (B > 0).double(), (3 * B.abs()).round()
CLASSES = (B > -0.4).double() + (B > 0.4).double()
GROUPS = [0, 0, 0, 1, 1, 2, 2, 2]
L1, L2, BOTH = sp.penalties.L1(0.8), Separable(l2=2.0), sp.penalties.ElasticNet(0.8, 2.0)
SMALL = sp.penalties.L1(0.02)

CASES = {
    "elastic net": (LeastSquares(A, B), sp.penalties.ElasticNet(torch.tensor([1.0, 2.0, 3.0], dtype=F64), 2.0)),
    "ridge": (LeastSquares(A, B), L2),
    "nonnegative": (LeastSquares(A, B), sp.penalties.NonNegative()),
    "nonnegative lasso": (LeastSquares(A, B), sp.penalties.NonNegative(0.8)),
    "nonnegative elastic net": (LeastSquares(A, B), Separable(0.8, 2.0, low=0.0)),
    "box": (LeastSquares(A, B), sp.penalties.Box(-0.05, torch.linspace(0.05, 0.1, 8, dtype=F64))),
    "group lasso": (LeastSquares(A[0], B), sp.penalties.GroupL2(GROUPS, 2.0, [1.0, 2.0, 0.5])),
    "logistic l2": (sp.losses.Logistic(A, LABELS), L2),
    "logistic elastic net": (sp.losses.Logistic(A, LABELS), sp.penalties.ElasticNet(0.02, 0.05)),
    "softmax l2": (sp.losses.Softmax(A, CLASSES), L2),
    "squared hinge l1": (sp.losses.SquaredHinge(A, LABELS), L1),
    "squared hinge l2": (sp.losses.SquaredHinge(A, LABELS), L2),
    "poisson l2": (sp.losses.Poisson(A, COUNTS), L2),
}
NAMES = {
    "elastic net": "scikit-learn ElasticNet",
    "nonnegative": "scipy nnls",
    "box": "scipy lsq_linear",
    "poisson l2": "scikit-learn PoissonRegressor",
    "squared hinge l1": "scikit-learn LinearSVC",
    "logistic l2": "scikit-learn lbfgs",
}


def accepted(problem, solvers, tol):
    """Each of them reaches the gap by its own tolerance, as our certificate says."""
    rule = StoppingRule(problem, problem.start(), tol)
    for solver in solvers:
        while not bool(rule.measure(solver.run(solver.prepare(problem), float("inf"))).converged.all()):
            assert solver.tighten(), solver.name
        assert "{tol}" not in solver.call


@pytest.mark.parametrize("name", list(CASES))
def test_peers_solve_our_problem(name):
    problem = sp.Problem(*CASES[name]).shifted(0.02)
    solvers, _ = externals(problem, 1e-6)
    names = [solver.name for solver in solvers]
    if name == "group lasso":
        pytest.importorskip("celer")
    assert solvers, name
    assert NAMES.get(name, names[0]) in names
    assert float(problem.duality_gap(problem.start()).min()) > 1e-3 * float(problem.objective(problem.start()).max())
    accepted(problem, solvers, 1e-6)


def test_a_sparse_matrix_is_handed_on_as_one():
    dense = torch.where(normal(40, 8, seed=3) > 0.7, normal(40, 8, seed=4), 0.0)
    problem = sp.elastic_net(dense.to_sparse(), B, 0.3, 0.5)
    solvers, _ = externals(problem, 1e-6)
    assert "scikit-learn ElasticNet" in [solver.name for solver in solvers]
    (matrix,) = solvers[0].prepare(problem).matrices
    assert type(matrix).__module__.startswith("scipy.sparse")
    np.testing.assert_array_equal(matrix.toarray(), dense)
    accepted(problem, solvers, 1e-6)


@pytest.mark.parametrize(
    ("f", "r", "said"),
    [
        (sp.losses.Huber(A, B, delta=0.5), L1, "estimates the scale of the residuals too"),
        (sp.losses.Poisson(A, COUNTS), L1, "has no l1"),
        (sp.losses.Quantile(A, B), L1, "without smoothing"),
        (LeastSquares(A, B, weights=B.abs()), L1, "solves other problems"),
        (sp.losses.Logistic(A, LABELS, offset=B), SMALL, "solves other problems"),
        (LeastSquares(A, B), sp.penalties.WeightedL1(torch.arange(8, dtype=F64)), "solves other problems"),
        (LeastSquares(A, B), sp.penalties.SparseGroup(GROUPS, 0.1, 0.2), "solves other problems"),
        (LeastSquares(A, B), Separable(torch.tensor([0.0, 1.0, 1.0], dtype=F64), 1.0), "l1 is 0 in some"),
        (LeastSquares(sp.operators.Difference(9), B[:, :8]), L1, "solves other problems"),
        (sp.losses.SquaredHinge(A, LABELS), BOTH, "no peer is known"),
        (sp.losses.Softmax(A, LABELS), L2, "fewer than three classes"),
    ],
)
def test_no_peer_is_said(f, r, said):
    solvers, why = externals(sp.Problem(f, r), 1e-6)
    assert solvers == []
    (line,) = why.values()
    assert said in line


def test_advice_without_a_peer_says_so():
    found = sp.advise(sp.Problem(sp.losses.Huber(A, B), L1), budget=60.0, engine="plain")
    assert found.solver == "restarted FISTA"
    assert "engine='plain'" in found.call
    assert "estimates the scale" in found.timing("scikit-learn HuberRegressor").note
    assert "l1 alone" in found.timing("pretrained optimizers").note
    with pytest.raises(sp.InputError, match="engine is 'fast'"):
        sp.advise(sp.Problem(sp.losses.Huber(A, B), L1), engine="fast")


def test_advice_for_an_elastic_net_measures_scikit_learn():
    found = sp.advise(sp.elastic_net(A, B, 1.0, 2.0), budget=60.0)
    assert found.timing("scikit-learn ElasticNet").whole is not None
    assert found.timing("restarted FISTA").whole is not None


def test_models_and_baseline_fit_the_form():
    assert suitable(sp.elastic_net(A, B, 1.0, 2.0)) == []
    assert suitable(sp.lasso(A, B, 1.0))
    poisson = sp.Problem(sp.losses.Poisson(A, COUNTS), L1)
    assert restarted_fista(poisson, 1e-6).certify is True  # alone it may diverge: there is no L
    assert restarted_fista(sp.lasso(A, B, 1.0), 1e-6).certify is False


def test_skglm_takes_part_where_it_is_installed(monkeypatch):
    """By a stand-in with its signatures, which solves by scikit-learn."""
    from sklearn import linear_model

    made = []

    class ElasticNet:
        def __init__(self, alpha=1.0, l1_ratio=0.5, tol=1e-4, positive=False, fit_intercept=True):
            made.append(positive)
            self.inner = linear_model.ElasticNet(
                alpha=alpha, l1_ratio=l1_ratio, tol=tol, positive=positive, fit_intercept=fit_intercept
            )

        def fit(self, X, y):
            return self.inner.fit(X, y)

    monkeypatch.setitem(sys.modules, "skglm", types.SimpleNamespace(ElasticNet=ElasticNet))
    for name in ("elastic net", "nonnegative elastic net"):
        problem = sp.Problem(*CASES[name])
        solvers = [solver for solver in externals(problem, 1e-6)[0] if solver.name == "skglm"]
        assert len(solvers) == 1
        accepted(problem, solvers, 1e-6)
    assert set(made) == {True, False}
