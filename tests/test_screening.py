"""Coordinates proved zero, and supports proved: against solutions to 1e-13, linear programs and exact supports."""

import copy
import gc
import weakref
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.optimize import linprog
from torch import Tensor

import sureprox as sp
from helpers import F64, autoregressive, labels, normal, random_problem, with_ratio
from loss_cases import POINTWISE, full, point
from sureprox.problems import LeastSquares, Logistic, Poisson, Problem, Softmax, losses
from sureprox.problems import penalties as r
from sureprox.problems.losses import Huber, Quantile, SquaredHinge
from sureprox.solve.stopping import StoppingRule
from sureprox.support.screening import proved

B, M, N = 2, 10, 15
GROUPS = torch.arange(N) // 3


def smooth(name: str) -> losses.Pointwise | losses.Quadratic | Softmax:
    """f with n = N; some with weights, one of them zero."""
    A, b, y = normal(B, M, N), normal(B, M, seed=1), labels(B, M, 2)
    w = normal(B, M, seed=3).abs() + 0.2
    w[:, 1] = 0
    counts = (2 * normal(B, M, seed=4).abs()).floor()
    makers = {
        "squares": lambda: LeastSquares(A, b),
        "weighted squares": lambda: LeastSquares(A, b, w, 0.3 * b),
        "huber": lambda: Huber(A, 2 * b, 0.7, w),
        "quantile": lambda: Quantile(A, b, 0.3, 0.4),
        "squared hinge": lambda: SquaredHinge(A, y, w),
        "logistic": lambda: Logistic(A, y),
        "weighted logistic": lambda: Logistic(A[0], y, weights=w),
        "poisson": lambda: Poisson(A / 2, counts, weights=w),
        "poisson identity": lambda: Poisson(A.abs(), counts, "identity", offset=0.5 + b.abs()),
        "softmax": lambda: Softmax(A[:, :, : N // 3], counts.clamp(max=2), 3),
    }
    return makers[name]()


LOSSES = (
    *("squares", "weighted squares", "huber", "quantile", "squared hinge", "logistic", "weighted logistic"),
    *("poisson", "poisson identity", "softmax"),
)


def problem_of(name: str, kind: str, ratio: float = 0.5) -> Problem:
    f = smooth(name)
    g = f.grad(torch.zeros(B, N, dtype=F64))
    lam = ratio * g.abs().amax(1)
    if "identity" in name:
        kind = "nonnegative"
    makers = {
        "l1": lambda: r.L1(lam),
        "weighted": lambda: r.WeightedL1(lam.unsqueeze(1) * (0.5 + normal(N, seed=7).abs())),
        "elastic": lambda: r.ElasticNet(lam, 0.1 * lam),
        "nonnegative": lambda: r.NonNegative(lam / 4),
        "box": lambda: r.Separable(l1=lam, low=-0.1, high=torch.linspace(0, 0.1, N, dtype=F64)),
        "groups": lambda: r.GroupL2(GROUPS, lam),
        "sparse groups": lambda: r.SparseGroup(GROUPS, lam / 2, lam / 2),
    }
    return Problem(f, makers[kind]())


def truth(problem: Problem) -> Tensor:
    """x* to a relative gap of 1e-13; its zeros are exact, as a proximal step makes them."""
    certify = "cheap" if isinstance(problem.f, Poisson) else False  # whose L is a guess
    options = {"tol": 1e-13, "max_iter": 50_000, "check_every": 40, "certify": certify}
    solution = sp.solve(problem, sp.optimizers.FISTA(restart=True), **options)
    assert solution.converged.all()
    return solution.x


def points_near(problem: Problem, x: Tensor) -> list[Tensor]:
    """From far to near, each with zeros of its own: x plus noise after a proximal step; the last one is x."""
    step = (0.5 / problem.lipschitz()).unsqueeze(1)
    noise = x.abs().amax() * normal(*x.shape, seed=9)
    near = [problem.prox(x + 10.0**-k * noise, 1e-3 * step) for k in range(1, 9)]
    return [problem.proximal_step(point, step) for point in near] + [x]


def never_wrong(inactive: Tensor, support: Tensor, at: Tensor, x: Tensor) -> None:
    nonzero = x.abs() > 1e-6 * x.abs().amax(1, keepdim=True).clamp(min=1e-300)
    assert not (inactive & nonzero).any()
    assert ((at != 0) == nonzero)[support].all()


PAIRS = [
    *((name, "l1") for name in LOSSES),
    *(("squares", kind) for kind in ("weighted", "elastic", "nonnegative", "box", "groups", "sparse groups")),
    *(("logistic", kind) for kind in ("elastic", "groups", "box")),
    *(("softmax", "elastic"), ("huber", "sparse groups"), ("poisson", "elastic")),
]


@pytest.mark.parametrize(("name", "kind"), PAIRS)
def test_nothing_is_proved_wrong_from_any_point_and_all_at_the_solution(name: str, kind: str) -> None:
    problem = problem_of(name, kind)
    x = truth(problem)
    counts = []
    for at in points_near(problem, x):
        seen = problem.certificate(at)
        found = proved(problem, at, seen.gap)
        inactive, support = found.inactive, found.support
        never_wrong(inactive, support, at, x)
        size = x.abs().amax(1, keepdim=True)
        assert not (found.active & (x.abs() <= 1e-6 * size)).any()
        assert ((at - x).abs() <= found.distance + 1e-6 * size).all()
        counts.append(int(inactive.sum()))
    assert torch.equal(inactive, x == 0)
    assert torch.equal(found.active[support], x[support] != 0)
    assert support[found.face].all()
    assert 0 < counts[-1] < x.numel()
    assert counts[0] < counts[-1] or kind == "box"  # loose gaps prove less, but a small box makes them small
    assert bool(support.any()) == ((name, kind) != ("softmax", "l1"))  # whose f is flat along the classes


@pytest.mark.parametrize("kind", ["lasso", "logistic"])
@pytest.mark.parametrize("dtype", [F64, torch.float32])
def test_solves_to_any_tolerance(kind: str, dtype: torch.dtype) -> None:
    problem = random_problem(kind, 4, 60, 120, 0.3).to(dtype=dtype)
    x = sp.reference(problem.to(dtype=F64), tol=1e-13).x
    share, certified = {}, {}
    for tol in (1e-1, 1e-3, 1e-6, 1e-9):
        solution = sp.solve(problem, tol=tol, polish=False)
        never_wrong(solution.inactive, solution.support_certified, solution.x, x)
        share[tol] = float(solution.inactive.sum() / (x == 0).sum())
        certified[tol] = int(solution.support_certified.sum())
    assert (x == 0).double().mean() > 0.5
    assert share[1e-1] < 0.8
    assert share[1e-6] > 0.95
    assert certified[1e-1] < certified[1e-9] >= 3


def can_be_nonzero(A: Tensor, b: Tensor, lam: float, x: Tensor) -> Tensor:
    """(n,) bool: some LASSO solution is not zero there. All have the A x and the |x|_1 of one, x: a linear program."""
    n = A.shape[1]
    fit = np.concatenate([np.hstack([A.numpy(), -A.numpy()]), np.ones((1, 2 * n))])
    right = np.append((A @ x).numpy(), float(x.abs().sum()))
    largest = []
    for j in range(n):
        cost = np.zeros(2 * n)
        cost[[j, n + j]] = -1.0
        found = linprog(cost, A_eq=fit, b_eq=right, options={"primal_feasibility_tolerance": 1e-9})
        assert found.status == 0
        largest.append(-found.fun)
    return torch.tensor(np.array(largest) > 1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_solutions_that_are_not_unique(seed: int) -> None:
    """Twins, an opposite and a mean of other columns: what any solution may use is never inactive."""
    A = normal(1, 8, 10, seed=seed)
    b = normal(1, 8, seed=seed + 50)
    problem = with_ratio("lasso", torch.cat([A, A[:, :, :3], -A[:, :, 3:6], A[:, :, :5:2].mean(2, True)], 2), b, 0.15)
    x = sp.reference(problem, tol=1e-13).x
    possible = can_be_nonzero(problem.f.A[0], b[0], float(problem.r.l1), x[0])
    assert torch.linalg.matrix_rank(problem.f.A[0][:, possible]) < possible.sum()
    for tol in (1e-2, 1e-6, 1e-10, 1e-14):
        for optimizer in (None, sp.optimizers.ISTA()):
            solution = sp.solve(problem, optimizer, tol=tol, max_iter=3000)
            assert not (solution.inactive[0] & possible).any()
            assert not solution.support_certified.any()
    assert solution.inactive.any()


def test_the_twin_of_an_active_column_is_never_screened_by_rounding() -> None:
    A = normal(200, 12, 8, seed=3)
    problem = with_ratio("lasso", torch.cat([A, A], 2), normal(200, 12, seed=4), 0.3)
    solution = sp.solve(problem, tol=1e-15, max_iter=300)
    active = (solution.x[:, :8].abs() + solution.x[:, 8:].abs()) > 1e-9
    assert active.sum() > 400
    assert not (solution.inactive & torch.cat([active, active], 1)).any()
    assert not solution.support_certified[active.any(1)].any()


@pytest.mark.parametrize("name", ["squares", "logistic", "huber", "softmax", "poisson"])
def test_where_zero_solves_everything_is_inactive(name: str) -> None:
    problem = problem_of(name, "l1", ratio=1.001)
    solution = sp.solve(problem)
    assert solution.inactive.all()
    assert solution.support_certified.all()


def test_bounds() -> None:
    """Pinned coordinates and those at 0 are inactive; what cannot be zero is not."""
    low = torch.tensor([0.0, 0.0, 0.2, -1.0], dtype=F64)
    high = torch.tensor([0.0, 1.0, 0.5, -0.1], dtype=F64)
    b = torch.tensor([[5.0, -1.0, 0.1, 3.0]], dtype=F64)
    problem = Problem(LeastSquares(torch.eye(4, dtype=F64), b), r.Box(low, high))
    solution = sp.solve(problem, tol=1e-10)
    assert solution.x[0].tolist() == pytest.approx([0, 0, 0.2, -0.1])
    assert solution.inactive[0].tolist() == [True, True, False, False]
    assert solution.active[0].tolist() == [False, False, True, True]
    assert solution.support_certified.all()


def test_some_are_proved_nonzero_before_the_whole_support_is() -> None:
    problem = random_problem("lasso", 6, 60, 50, 0.05)  # m > n: the curvature of f needs no support
    x = sp.reference(problem, tol=1e-13).x
    counts = []
    for tol in (1e-2, 1e-4, 1e-8):
        solution = sp.solve(problem, sp.optimizers.FISTA(restart=True), tol=tol, polish=False, check_every=1)
        assert not (solution.active & (x == 0)).any()
        assert (solution.active | solution.inactive)[solution.support_certified].all()
        counts.append((int(solution.active.sum()), int(solution.support_certified.sum())))
    assert 0 < counts[0][0] < counts[1][0]
    assert counts[0][1] == 0
    assert counts[2][0] == (x != 0).sum()
    assert counts[2][1] >= 5


def test_the_face_counts_bounds_that_are_not_zero() -> None:
    problem = Problem(smooth("squares"), r.Box(-0.1, 0.2))
    x = truth(problem)
    sharp, rough = (proved(problem, at, problem.certificate(at).gap) for at in (x, points_near(problem, x)[0]))
    assert sharp.face.all()
    assert not rough.face.any()
    assert (sharp.distance[(x == -0.1) | (x == 0.2)] == 0).all()


def test_what_is_left_by_working_sets_is_proved_for_its_own_point(monkeypatch: pytest.MonkeyPatch) -> None:
    """The proof belongs to the point that is returned, and not to the one that the working sets gave up at."""
    problem = random_problem("lasso", 2, 20, 40, 0.3)
    right = sp.solve(problem, tol=1e-9)
    with monkeypatch.context() as once:
        once.setattr(StoppingRule, "_small_gap", _no_first(8))
        again = sp.solve(problem, tol=1e-9)
    assert again.iterations.max() > 0
    assert torch.equal(again.screening.proved.inactive, proved(problem, again.x, again.gap).inactive)
    assert torch.equal(again.support_certified, right.support_certified)


def _no_first(calls: int):
    """`StoppingRule._small_gap` that says no the first times."""
    plain, seen = StoppingRule._small_gap, []

    def judged(self, found, gap):
        seen.append(1)
        answer = plain(self, found, gap)
        return answer & (len(seen) > calls)

    return judged


def test_a_shifted_problem_is_zero_where_its_penalty_is() -> None:
    plain = random_problem("lasso", 2, 20, 40, 0.3)
    moved = plain.shifted(normal(40, seed=5))
    here, there = (sp.solve(problem, tol=1e-10) for problem in (plain, moved))
    assert torch.equal(here.inactive, there.inactive)
    assert (there.x + moved.shift)[there.inactive].abs().max() == 0
    assert here.inactive.any()
    assert there.support_certified.all()


# --- what the proof is made of ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", POINTWISE)
@pytest.mark.parametrize("rise", [1e-6, 1e-2, 1.0])
def test_curvature_within_holds_for_all_points_on_a_grid(name: str, rise: float) -> None:
    f = full(name)
    z = f.inner(point(name, size=2.0))
    least, most = f.curvature_within(z, torch.full_like(z, rise))
    terms = getattr(f, "terms", lambda rows: rows**2 / 2)
    close = 0
    for distance in torch.logspace(-6, 1, 60, dtype=F64).tolist():
        for t in (z + distance, z - distance):
            v = f.slopes(t)
            D = terms(z) - terms(t) - v * (z - t)
            inside = torch.isfinite(D) & (rise >= D) & torch.isfinite(terms(t))
            if "identity" in name:
                inside &= t > 0
            doubt = 1e-12 * (1 + terms(z) + v.abs() * (1 + z.abs()))
            assert ((D + doubt >= least / 2 * (z - t) ** 2) | ~inside).all()
            assert ((D + doubt >= (f.slopes(z) - v) ** 2 / (2 * most)) | ~inside).all()
            close += int((inside & (D > 1e-9) & (least * (z - t) ** 2 > D)).sum())
    assert close > 0 or rise == 1.0  # the bound from below is not far off


def test_softmax_bounds_every_class() -> None:
    f = full("softmax")
    z, t = (f.inner(point("softmax", seed)) for seed in (1, 2))
    D = f.divergence(z, f.slopes(t)).unflatten(1, (f.classes, -1)).sum(1).repeat(1, f.classes)
    least, most = f.curvature_within(z, D)
    assert ((f.slopes(z) - f.slopes(t)) ** 2 / (2 * most) <= D).all()
    assert (least == 0).all()


@pytest.mark.parametrize("kind", ["dense", "shared", "sparse", "standardized", "stack", "haar", "function", "repeated"])
def test_column_squares(kind: str) -> None:
    A, w = normal(6, 4), normal(3, 6, seed=1).abs()
    ops = sp.operators
    scaled = ops.Standardized(ops.Sparse((A + 5).to_sparse()))
    made = {
        "dense": ops.Dense(normal(3, 6, 4)),
        "shared": ops.Dense(A),
        "sparse": ops.Sparse(A.to_sparse()),
        "standardized": scaled,
        "stack": ops.Stack(A[:2], ops.Sparse(A[2:].to_sparse())),
        "haar": ops.Haar(8, 2),
        "function": ops.Function(lambda x: x @ A.to(x).mT, lambda z: z @ A.to(z), (6, 4)),
        "repeated": Softmax(A[:2], torch.tensor([0.0, 2.0], dtype=F64), 3).map,
    }[kind]
    w = normal(3, made.shape[0], seed=1).abs()
    dense = made.at(w).dense().expand(3, -1, -1)
    assert torch.allclose(made.column_squares(w), torch.einsum("bm,bmn->bn", w, dense**2), rtol=1e-10)


def test_column_squares_of_what_is_too_large_to_make() -> None:
    w = torch.rand(1, 4096, dtype=F64)
    known = sp.operators.Haar(4096).column_squares(w)
    assert torch.equal(known, w.amax().expand(1, 4096))
    blur = sp.operators.Convolution(torch.ones(3, dtype=F64), 4096, "zero")
    assert torch.isinf(blur.column_squares(w)).all()


@pytest.mark.parametrize("kind", ["sparse", "standardized", "convolution", "function"])
def test_operators(kind: str) -> None:
    A, ops = normal(15, 30), sp.operators
    made = {
        "sparse": ops.Sparse(A.to_sparse()),
        "standardized": ops.Standardized(A + 100),
        "convolution": ops.Convolution(normal(3), 30, "zero"),
        "function": ops.Function(lambda x: x @ A.to(x).mT, lambda z: z @ A.to(z), (15, 30)),
    }[kind]
    b = normal(2, made.shape[0], seed=1)
    lam = 0.4 * LeastSquares(made, b).grad(torch.zeros(2, 30, dtype=F64)).abs().amax(1)
    problem, dense = (Problem(LeastSquares(map_, b), r.L1(lam)) for map_ in (made, made.at(b).dense()))
    x = sp.reference(dense, tol=1e-13).x
    solution = sp.solve(problem, tol=1e-6)
    never_wrong(solution.inactive, solution.support_certified, solution.x, x)
    assert solution.inactive.sum() > 0.7 * (x == 0).sum()


# --- when it is computed, and what it keeps ---------------------------------------------------------------------------


def test_the_problem_is_kept_until_the_proof_is_read_and_no_longer() -> None:
    problem = random_problem("lasso", 2, 20, 60)
    solution = sp.solve(problem)
    other = sp.solve(problem)
    kept = weakref.ref(problem)
    del problem
    gc.collect()
    assert kept() is not None
    twin = copy.deepcopy(other)
    assert torch.equal(solution.inactive, twin.inactive)
    assert torch.equal(solution.support_certified, other.support_certified)
    gc.collect()
    assert kept() is None


def test_data_written_on_after_the_solve_are_refused() -> None:
    problem = random_problem("lasso", 2, 20, 60)
    solution = sp.solve(problem)
    problem.f.b.mul_(2)
    with pytest.raises(sp.InputError, match="changed in place after the solve"):
        _ = solution.inactive


def test_parts_of_a_batch_are_proved_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for shared in (False, True):
        problem = random_problem("lasso", 5, 20, 40, 0.3, shared=shared)
        solution = sp.solve(problem, tol=1e-8)
        whole = proved(problem, solution.x, solution.gap)
        with monkeypatch.context() as small:
            small.setattr("sureprox.support.screening.CHUNK", 1000)
            parts = proved(problem, solution.x, solution.gap)
        same = {name: (one, two) for name, one, two in zip(whole._fields, whole, parts, strict=True)}
        assert all(torch.equal(*pair) for pair in same.values() if pair[0].dtype == torch.bool)
        assert all(torch.allclose(*same[name], rtol=1e-9) for name in ("distance", "change"))
        assert whole.support.any()


def test_without_a_gap_or_a_known_loss_nothing_is_proved() -> None:
    class Mine(LeastSquares):
        """May be another function."""

    A, b = normal(1, 10, 20), normal(1, 10, seed=1)
    own = sp.solve(Problem(Mine(A, b), r.L1(1e3)), max_iter=5)
    assert not own.inactive.any()
    weighted = sp.solve(Problem(sp.problems.WeightedLeastSquares(A, b, torch.ones(10, dtype=F64)), r.L1(1e3)))
    assert not weighted.inactive.any()
    assert not replace(sp.solve(sp.lasso(A, b, 1e3)), screening=None).inactive.any()
    assert sp.solve(sp.lasso(A, b, 1e3)).inactive.all()


def test_ill_conditioned_supports_are_certified_only_when_they_are_right() -> None:
    problem = with_ratio("lasso", autoregressive(10, 20, 20, 0.9), normal(10, 20, seed=3), 0.05)
    x = sp.reference(problem, tol=1e-13).x
    certified = []
    for tol in (1e-2, 1e-4, 1e-7, 1e-10):
        solution = sp.solve(problem, sp.optimizers.FISTA(restart=True), tol=tol, max_iter=5000, polish=False)
        never_wrong(solution.inactive, solution.support_certified, solution.x, x)
        certified.append(int(solution.support_certified.sum()))
    assert certified[0] == 0
    assert certified[-1] >= 8
