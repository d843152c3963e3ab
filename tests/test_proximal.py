"""Proximal points by their duals: the prox of each row against its equation, and wide problems no iterations finish."""

import pytest
import torch

import sureprox as sp
from helpers import F64, autoregressive, labels, lam_max, normal
from sureprox import losses, penalties
from sureprox.guarantee import Track
from sureprox.optimizers import FISTA
from sureprox.problems import Problem
from sureprox.problems.forms import has_proximal_points
from sureprox.support.proximal import proximal_points

B, M, N = 2, 40, 100
A = autoregressive(B, M, N, 0.9, seed=1)
FIT = A[:, :, :4].sum(2)
y = FIT + normal(B, M, seed=2)
y[:, ::8] += 20
COUNTS = torch.poisson((FIT / FIT.std()).exp().clamp(max=20), generator=torch.Generator().manual_seed(3))
WEIGHTS = normal(B, M, seed=4).abs()
WEIGHTS[:, 5] = 0

LOSSES = {
    "squares": lambda: losses.LeastSquares(A, y, weights=WEIGHTS),
    "huber": lambda: losses.Huber(A, y, weights=WEIGHTS),
    "quantile": lambda: losses.Quantile(A, y, 0.7, 0.1),
    "squared hinge": lambda: losses.SquaredHinge(A, labels(B, M, 5)),
    "logistic": lambda: losses.Logistic(A, labels(B, M, 5), weights=WEIGHTS, offset=normal(M, seed=6)),
    "poisson": lambda: losses.Poisson(A, COUNTS, offset=0.1 * normal(M, seed=6)),
    "counts": lambda: losses.Poisson(A.abs(), COUNTS, "identity", offset=torch.ones(M, dtype=F64)),
    "softmax": lambda: losses.Softmax(A, (y > -1).long() + (y > 1).long(), weights=WEIGHTS),
}


def penalty(kind: str, lam: torch.Tensor, n: int) -> penalties.Penalty:
    groups = torch.arange(n) // 4
    bounds = torch.full((n,), 0.2, dtype=F64).index_fill(0, torch.tensor([3]), torch.inf)
    return {
        "l1": lambda: penalties.L1(lam),
        "nonnegative": lambda: penalties.NonNegative(lam),
        "everything": lambda: penalties.Separable(lam, 0.1 * lam, -bounds, 2 * bounds),
        "groups": lambda: penalties.GroupL2(groups, lam),
        "sparse groups": lambda: penalties.SparseGroup(groups, lam / 2, lam / 2),
    }[kind]()


def problem(loss: str, kind: str, ratio: float) -> Problem:
    f = LOSSES[loss]()
    top = lam_max(Problem(f, penalties.Zero()))
    return Problem(f, penalty(kind, ratio * top, f.shape[1]))


FORMS = [
    (loss, kind) for loss in LOSSES for kind in ("l1", "everything", "groups", "sparse groups") if loss != "counts"
]


def bends(f: losses.LeastSquares, z: torch.Tensor) -> torch.Tensor:
    """No less than phi'' near z: by so much rounding of z changes phi'."""
    if isinstance(f, losses.LeastSquares | losses.Softmax):
        return torch.ones_like(z)
    return f.curvatures(z) if isinstance(f, losses.Poisson) else f.curvature_bound * torch.ones_like(z)


@pytest.mark.parametrize("step", [1e-3, 1.0, 1e6])
@pytest.mark.parametrize("loss", LOSSES)
def test_the_prox_of_rows_solves_its_equation_and_its_derivative_is_right(loss, step):
    f = LOSSES[loss]()
    steps = torch.tensor([[step], [3 * step]], dtype=F64)
    for size in (1e-3, 1.0, 30.0):
        t = size * (1 + steps) * normal(B, f.m, seed=7)
        z = f.row_prox(t, steps)
        assert torch.isfinite(z).all()
        inside = torch.ones_like(z) if loss != "counts" else (f.y > 0) | (z > 0)  # at the end of its domain phi bends
        left, rounding = (z + steps * f.slopes(z) - t).abs(), 1e-14 * (t.abs() + z.abs() + steps)
        assert (inside * left <= rounding * (1 + steps * bends(f, z))).all()
    t, by = (1 + steps) * normal(B, f.m, seed=8), 1e-6 * (1 + steps) * normal(B, f.m, seed=9)
    if loss != "counts":  # whose slopes have a pole
        p, beside = f.row_turns(f.row_prox(t, steps), steps)
        turned = p * by
        if beside is not None:
            rows = by.view(B, beside.shape[1], -1)
            turned = turned + (beside * (beside * rows).sum(1, keepdim=True)).flatten(1)
        moved = steps * (f.row_prox(t + by / 2, steps) - f.row_prox(t - by / 2, steps))
        close = (moved - turned).abs() <= 1e-5 * (moved.abs() + turned.abs()) + 1e-9 * steps
        assert close.double().mean() > 0.95  # but where t passes a kink


@pytest.mark.parametrize("ratio", [1e-1, 1e-4])
@pytest.mark.parametrize(("loss", "kind"), [*FORMS, ("counts", "nonnegative")])
def test_from_zero_to_a_gap_that_proves_the_answer(loss, kind, ratio):
    given = problem(loss, kind, ratio)
    assert has_proximal_points(given)
    zero = torch.zeros(B, given.n, dtype=F64)
    x = proximal_points(given, zero)
    seen = given.certificate(x)
    assert (seen.gap <= 1e-4 * seen.objective).all()
    assert (seen.objective < given.objective(zero)).all()
    for i in range(B):
        alone = proximal_points(given.select(torch.tensor([i])), zero[:1])
        torch.testing.assert_close(given.objective(alone.expand(B, -1))[i], seen.objective[i], rtol=1e-8, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, F64])
@pytest.mark.parametrize("loss", ["huber", "quantile", "squared hinge", "poisson", "softmax"])
def test_a_small_penalty_on_wide_data_needs_few_iterations(loss, dtype):
    given = problem(loss, "l1", 1e-4).to(dtype=dtype)
    found = sp.solve(given, max_iter=1000)
    assert found.converged.all()
    assert (found.track == Track.POLISH).all()
    alone = sp.solve(given, FISTA(restart=True), max_iter=1000, polish=False)
    assert not alone.converged.any(), "the case is trivial"
    assert (found.objective <= alone.objective).all()


def test_free_coordinates_and_shifts():
    lam = 1e-3 * lam_max(Problem(LOSSES["huber"](), penalties.Zero()))
    weights = torch.ones(N, dtype=F64).index_fill(0, torch.tensor([0, 7]), 0.0)
    given = Problem(LOSSES["huber"](), penalties.WeightedL1(lam.unsqueeze(1) * weights))
    found = sp.solve(given, max_iter=1000)
    assert found.converged.all()
    moved = sp.solve(given.shifted(normal(N, seed=3)), max_iter=1000)
    assert moved.converged.all()
    torch.testing.assert_close(moved.objective, found.objective, rtol=1e-5, atol=0)


def test_a_start_without_a_value_stays():
    given = problem("poisson", "l1", 0.1)
    start = torch.full((B, N), 1e6, dtype=F64)
    start[1] = 0
    found = proximal_points(given, start)
    assert torch.equal(found[0], start[0])
    assert given.objective(found)[1] < given.objective(start)[1]
