"""Sure with the features for every form: these by hand, what it does not see, every form, and the diagonal it sees."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

import sureprox as sp
from form_cases import PAIRS, data, problem
from helpers import normal, refused
from optimizer_cases import calm, gap, path, states
from sureprox.kernels import on_cpu
from sureprox.kernels.sure import gpu
from sureprox.kernels.sure.cpu import suits_sure
from sureprox.optimizers import Sure, sure
from sureprox.problems import Huber, LeastSquares, Logistic, Problem
from sureprox.problems.forms import form_of, hessian_diagonal
from sureprox.problems.operators import Haar
from sureprox.problems.penalties import L1, Box, ElasticNet, NonNegative, Penalty, Separable, Zero

F64 = torch.float64
B, M, N = 3, 12, 8
VARIANTS = {"full": {}, "conjugate": {"conjugate": True}, "light": {"coordinate": 0, "conjugate": True}}


def general(**arguments) -> Sure:
    return calm(Sure(features="general", **arguments)).double()


# --- the features, by hand --------------------------------------------------------------------------------------------

EVERY = {"l1": 0.4, "l2": 0.3, "low": -0.5, "high": 1.0}
PARTS = {
    "everything": EVERY,
    "l1": {"l1": 0.4},
    "bounds": {"low": 0.0, "high": 1.0},
    "l2": {"l2": 0.3},
    "nonnegative": {"l1": 0.4, "low": 0.0},
}
POINT = np.array([0.0, 0.7, -0.5, 1.0, 0.2, -0.3, 0.0, 1.0])
BEFORE = np.array([0.1, 0.6, -0.5, 0.9, 0.3, 0.2, 0.0, 1.0])


def place_by_hand(x, g, l1, l2, low, high, rms):
    """u, side, smooth, excess, bound, slope of each coordinate."""
    rows = []
    for xj, gj in zip(x, g, strict=True):
        w, size = gj + l2 * xj, l1 if l1 > 0 else rms
        bound = xj <= low or xj >= high
        smooth = not bound and not (xj == 0 and l1 > 0)
        side = (-1 if xj <= low else 1) if bound else (np.sign(xj) if l1 > 0 else 0)
        slope = w + l1 * np.sign(xj) if smooth else 0
        rows.append((w / (size + abs(w)), side, smooth, np.clip((abs(w) - size) / size, -1, 1), bound, slope))
    return np.array(rows, dtype=float).T


def log(value: float, low: float, high: float) -> float:
    return math.log10(min(max(value, low), high))


def features_by_hand(A, b, parts, before, momentum):
    """(16,) and (10, n) at POINT, the step before having been at BEFORE with G `before` (on the same sides as now)."""
    l1, l2 = parts.get("l1", 0.0), parts.get("l2", 0.0)
    low, high = parts.get("low", -np.inf), parts.get("high", np.inf)
    x, xb = (np.clip(point, low, high) for point in (POINT, BEFORE))
    L = np.linalg.norm(A, 2) ** 2
    g, gb = A.T @ (A @ x - b), A.T @ (A @ xb - b)
    v = x - g / L
    moved = np.clip(np.sign(v) * np.maximum(np.abs(v) - l1 / L, 0) / (1 + l2 / L), low, high)
    G, d, dg = L * (x - moved), x - xb, g - gb
    norm = np.linalg.norm
    u, side, smooth, excess, bound, slope = place_by_hand(x, g, l1, l2, low, high, norm(G) / math.sqrt(N))
    side_before = place_by_hand(xb, gb, l1, l2, low, high, 1.0)[1]
    on = (smooth == 1) & (side == side_before)
    dS, qS = d * on, (dg + l2 * d) * on
    curvature = max(dS @ qS, 1e-5 * L * (dS @ dS))
    line = np.clip(-(dS @ slope) / curvature, -1, 20)
    beta = np.clip(((slope * on + line * qS) @ qS) / curvature / L, -5, 5)
    threshold = norm(np.full(N, l1))
    instance = [
        0.5 * np.arcsinh(line),
        0.5 * np.arcsinh(beta),
        0.3 * log(norm(G) / 2.0, 1e-9, 1e3),
        2 * log(norm(G) / norm(before), 0.1, 10),
        G @ d / (norm(G) * norm(d)),
        G @ before / (norm(G) * norm(before)),
        0.5 * log(d @ dg / (L * d @ d), 1e-5, 1) + 1,
        0.5 * log(dg @ dg / (L * (d @ dg)), 1e-4, 1) + 0.5,
        0.5 * log(L * norm(d) / norm(G), 1e-3, 1e4) - 0.3,
        2 * smooth.mean() - 0.5,
        0.5 * math.log10((side != side_before).mean() + 1e-3) + 1,
        1.5 if threshold == 0 else 0.2 * log(norm(G) / threshold, 1e-8, 1e6) + 0.3,
        momentum,
        0.0,
        bound.mean(),
        0.5 * log(dS @ qS / (L * (dS @ dS)), 1e-5, 1) + 1,
    ]
    scaled = [math.sqrt(N) * part / norm(part) for part in (G, d, dg)]
    diagonal = 0.5 * np.log10(np.clip((A**2).sum(0) / L, 1e-6, 1)) + 0.5
    rows = [u, side, smooth - 0.5, *(0.5 * np.arcsinh(part) for part in scaled)]
    rows += [0.5 * np.arcsinh(scaled[0] * scaled[1]), excess, bound, diagonal]
    return np.array(instance), np.array(rows), side_before, (x, xb, gb)


def row(value) -> torch.Tensor:
    return torch.as_tensor(value, dtype=F64).reshape(1, -1)


@pytest.mark.parametrize("name", PARTS)
def test_the_features_are_those_made_by_hand(name, monkeypatch):
    A, b, before = (normal(*shape, seed=s).numpy() for s, shape in enumerate(((M, N), (M,), (N,))))
    instance, coordinate, side, (x, xb, gb) = features_by_hand(A, b, PARTS[name], before, 0.6)
    f = LeastSquares(torch.from_numpy(A).unsqueeze(0), row(b))
    given, optimizer, seen = Problem(f, Separable(**PARTS[name])), general(), []
    known = sure.sight
    monkeypatch.setattr(sure, "sight", lambda *some: seen.append(known(*some)) or seen[-1])
    with torch.no_grad():
        state = replace(
            optimizer.init(given, row(x), step_size=1 / given.lipschitz(exact=True)),
            x_before=row(xb),
            g_before=row(gb),
            G_before=row(before),
            side_before=row(side),
            G_first=row(2.0)[0],
            momentum=row(0.6)[0],
            fresh=row(0.0)[0],
        )
        optimizer.step(given, state)
    np.testing.assert_allclose(seen[0].instance[0].numpy(), instance, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(torch.cat(seen[0].coordinate, 1)[0].numpy(), coordinate, rtol=1e-10, atol=1e-12)


def test_where_l1_is_zero_it_sees_what_the_features_made_for_l1_do_not(monkeypatch):
    """The reason for a second edition: of a box those saw the same of every free coordinate."""
    seen, known = [], sure.sight
    monkeypatch.setattr(sure, "sight", lambda *some: seen.append(known(*some)) or seen[-1])
    given = Problem(LeastSquares(normal(B, M, N), normal(B, M, seed=1)), Box(-5.0, 5.0))
    for optimizer in (calm(Sure()).double(), general()):
        with torch.no_grad():
            optimizer.step(given, optimizer.init(given, normal(B, N, seed=2)))
    old, new = (torch.cat(view.coordinate, 1)[:, 0].abs() for view in seen)  # u
    assert bool((old == 1).all())
    assert bool((new < 1).all())
    assert float(new.max() - new.min()) > 0.3


# --- what it does not see ---------------------------------------------------------------------------------------------

LOSSES = {
    "squares": lambda A, b, c: LeastSquares(A, c * b),
    "huber": lambda A, b, c: Huber(A, c * b, 0.7 * c),
    "logistic": lambda A, b, c: Logistic(A, (b > 0).double()),
}
PENALTIES = {  # with their numbers for x in units of c and F in units of s
    "l1": lambda c, s: L1(0.2 * s / c),
    "elastic net": lambda c, s: ElasticNet(0.2 * s / c, 0.3 * s / c**2),
    "ridge": lambda c, s: Separable(l2=0.1 * s / c**2),
    "nonnegative": lambda c, s: NonNegative(),
    "box": lambda c, s: Box(-0.1 * c, 0.2 * c),
    "everything": lambda c, s: Separable(0.2 * s / c, 0.3 * s / c**2, -0.1 * c, 0.3 * c),
    "nothing": lambda c, s: Zero(),
}
WALK = 15


def walk(f, r, optimizer, x0):
    return path(Problem(f, r), optimizer, x0, WALK)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", PENALTIES)
def test_the_units_of_x_and_of_f_do_not_show(name, variant):
    optimizer, A, b, x0 = general(**VARIANTS[variant]), normal(B, M, N), normal(B, M, seed=1), normal(B, N, seed=2)
    x0 = Problem(LeastSquares(A, b), PENALTIES[name](1, 1)).prox(x0, torch.full((B, 1), 1e-300, dtype=F64))
    for loss in LOSSES:
        plain = walk(LOSSES[loss](A, b, 1), PENALTIES[name](1, 1), optimizer, x0)
        c = 32.0
        scaled = walk(LOSSES[loss](A / c, b, 1), PENALTIES[name](c, 1), optimizer, c * x0)  # x in other units
        assert gap(scaled / c, plain) <= 1e-12
        if loss != "logistic":  # b in other units, and so x and F
            scaled = walk(LOSSES[loss](A, b, c), PENALTIES[name](c, c**2), optimizer, c * x0)
            assert gap(scaled / c, plain) <= 1e-12
        assert float((plain[-1] - plain[0]).abs().max()) > 0.1


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", PENALTIES)
def test_moving_the_problem_moves_the_path(name, variant):
    optimizer, t = general(**VARIANTS[variant]), 5 * normal(B, N, seed=9)
    given = Problem(LeastSquares(normal(B, M, N), normal(B, M, seed=1)), PENALTIES[name](1, 1))
    x0 = given.prox(normal(B, N, seed=2), torch.full((B, 1), 1e-300, dtype=F64))
    assert gap(path(given.shifted(t), optimizer, x0 - t, WALK) + t, path(given, optimizer, x0, WALK)) <= 1e-8


# --- every form -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("loss", "penalty"), [pair for pair in PAIRS if pair[1] in ("nonnegative", "everything")])
def test_every_separable_form_converges(loss, penalty):
    """Near restarted FISTA, which `calm` weights are: certified, as Poisson's has no L."""
    given = problem(loss, penalty, ("own", "shared", "sparse", "function")[len(loss + penalty) % 4])
    found = sp.solve(given, general(), tol=1e-5, max_iter=3000)
    assert bool(found.converged.all())
    assert not bool(torch.isnan(found.x).any())


def test_groups_are_refused_in_one_line():
    refused(lambda: sp.solve(problem("huber", "groups", "own"), general()), "not separable", "FISTA(restart=True)")


def test_it_reaches_further_than_the_features_made_for_l1():
    given = Problem(LeastSquares(normal(B, M, N), normal(B, M, seed=1)), L1(0.1))
    for features, reach in (("l1", 8.0), ("general", 32.0)):
        optimizer = Sure(features=features).double()
        with torch.no_grad():
            for name, value in optimizer.named_parameters():
                value.fill_(30.0 if name == "network.out.bias" else 0.0)
        R = states(given, optimizer, normal(B, N, seed=2), 1)[-1].R * given.lipschitz().unsqueeze(1)
        torch.testing.assert_close(R, torch.full_like(R, reach))


def test_bad_features_are_refused():
    refused(lambda: Sure(features="all"), "features is 'all'", "'l1', 'general'")


# --- the diagonal -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("matrix", ["own", "shared", "sparse"])
@pytest.mark.parametrize(
    "loss", ["least squares", "huber", "quantile", "squared hinge", "logistic", "poisson identity", "softmax"]
)
def test_the_diagonal_is_above_that_of_the_hessian_and_sharp_for_squares(loss, matrix):
    given = problem(loss, "nonnegative", matrix)
    bound = hessian_diagonal(given)
    assert bound.shape == (given.batch, given.n)
    for seed in range(4):
        x = 0.2 * normal(given.batch, given.n, seed=seed).abs()
        curved = (given.grad(x + 1e-6) * 0).clone()
        for j in range(given.n):
            step = torch.zeros_like(x)
            step[:, j] = 1e-5
            curved[:, j] = (given.grad(x + step) - given.grad(x - step))[:, j] / 2e-5
        assert bool((curved <= bound * (1 + 1e-5)).all())
        if loss == "least squares":
            torch.testing.assert_close(curved, bound, rtol=1e-6, atol=1e-8)


def test_where_columns_are_not_at_hand_it_is_one_number_of_their_size():
    A = data("least squares", True).A
    found = hessian_diagonal(problem("least squares", "l1", "function"))
    assert bool((found == found[:, :1]).all())
    mean = float((A**2).sum(0).mean())
    assert mean / 3 <= float(found[0, 0]) <= 3 * mean
    orthogonal = Problem(LeastSquares(Haar(16).to(dtype=F64), normal(2, 16)), L1(0.1))
    torch.testing.assert_close(hessian_diagonal(orthogonal), torch.ones(2, 16, dtype=F64))


def test_a_part_of_ones_own_has_none_and_is_solved():
    class Own:
        def __init__(self):
            self.A, self.n, self.like = normal(M, N), N, normal(1)

        def value(self, x):
            return 0.5 * (x @ self.A.T - 1).square().sum(1)

        def grad(self, x):
            return (x @ self.A.T - 1) @ self.A

        def lipschitz(self):
            return (torch.linalg.matrix_norm(self.A, ord=2) ** 2).expand(2)

    given = Problem(Own(), L1(0.1))
    assert hessian_diagonal(given) is None
    assert bool((general().init(given, given.start()).diagonal == sure.UNKNOWN).all())
    assert bool(sp.solve(given, general(), tol=1e-8, max_iter=2000).converged.all())


class MovedSmooth:
    """f(x + t)."""

    def __init__(self, f, t):
        self.f, self.t, self.n, self.like = f, t, f.n, t

    def value(self, x):
        return self.f.value(x + self.t)

    def grad(self, x):
        return self.f.grad(x + self.t)

    def lipschitz(self):
        return self.f.lipschitz()


class MovedPenalty(Penalty):
    """r(x + t)."""

    def __init__(self, r, t):
        self.r, self.t = r, t

    def value(self, x):
        return self.r.value(x + self.t)

    def prox(self, v, step):
        return self.r.prox(v + self.t, step) - self.t

    def subdiff(self, x):
        return self.r.subdiff(x + self.t)


def test_parts_of_ones_own_walk_as_the_packages_but_for_the_diagonal(monkeypatch):
    """What it sees of r comes from the subdifferential, wherever zero is; an f of one's own has no diagonal to show."""
    t, x0 = 3 * normal(B, N, seed=5), normal(B, N, seed=2)
    given = Problem(LeastSquares(normal(B, M, N), normal(B, M, seed=1)), L1(0.2))
    own = Problem(MovedSmooth(given.f, t), MovedPenalty(given.r, t))
    ours = path(own, general(), x0, WALK)
    assert gap(ours, path(given.shifted(t), general(), x0, WALK)) > 1e-6
    monkeypatch.setattr(sure, "hessian_diagonal", lambda some: None)
    assert gap(ours, path(given.shifted(t), general(), x0, WALK)) <= 1e-10


def test_no_kernel_takes_it_for_the_one_it_knows(monkeypatch):
    """Those of both machines compute the features made for L1, and would read the weights wrongly."""
    monkeypatch.setattr(gpu.cuda, "usable", lambda *some: True)
    monkeypatch.setattr(gpu.cuda, "index", lambda device: 0)
    form = form_of(sp.lasso(normal(B, 60, 120), normal(B, 60, seed=1), 0.1).to(dtype=torch.float32))
    for features, known in (("l1", True), ("general", False)):
        optimizer = Sure(features=features)
        assert bool(gpu.builds(form, optimizer)) == known
        assert suits_sure(optimizer) == known
        assert (on_cpu.operations(form, optimizer).move is not None) == known
