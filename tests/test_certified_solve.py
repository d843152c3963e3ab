"""solve with certify: statuses that do not lie, what the solution reports, float32 finished in float64, gradients."""

from functools import partial

import numpy as np
import pytest
import torch

import sureprox as sp
from certified_cases import ADVERSARIES, Ball, Ridge, constant, random_weights
from helpers import F64, normal, random_problem, refused
from sureprox import Status
from sureprox.guarantee import Audited, Certified, CertifiedCheap, Track
from sureprox.optimizers import FISTA, ISTA, L2OPA, Adam
from sureprox.problems import LeastSquares

MODES = pytest.mark.parametrize("certify", [True, "audit", "cheap"])
KINDS = pytest.mark.parametrize("kind", ["lasso", "logistic"])
NAN = constant(float("nan"))
solve = partial(sp.solve, polish=False)  # what the guarantee does by itself; the polish has tests of its own


@MODES
@KINDS
@pytest.mark.parametrize("name", ["NaN", "1e30", "ascent", "vandal", "noise"])
def test_harmful_optimizers_are_solved_all_the_same(name, kind, certify):
    problem = random_problem(kind, batch=3, m=20, n=10)
    best = sp.reference(problem).objective
    solution = solve(problem, ADVERSARIES[name], max_iter=2000, certify=certify)
    assert solution.converged.all()
    assert (solution.objective - best <= 1e-6 * best).all()
    assert (solution.gap >= solution.objective - best - 1e-14 * best).all()
    assert (solution.pull_backs >= 1).all()
    assert {*solution.track} <= {Track.FISTA, Track.RESTARTED, Track.OPTIMIZER}


@MODES
@pytest.mark.parametrize("name", ["NaN", "1e30", "ascent", "vandal", "noise"])
def test_harmful_optimizers_do_not_harm_the_polish(name, certify):
    problem = random_problem("lasso", batch=3, m=20, n=10)
    best = sp.reference(problem).objective
    solution = sp.solve(problem, ADVERSARIES[name], max_iter=2000, certify=certify)
    assert solution.converged.all()
    assert (solution.objective - best <= 1e-6 * best).all()
    assert (solution.gap >= solution.objective - best - 1e-14 * best).all()
    assert Track.POLISH in set(solution.track)


def test_certified_is_the_default_and_never_later_than_restarted_fista():
    problem = random_problem("lasso", batch=4, m=20, n=30)
    plain = solve(problem, FISTA(restart=True), max_iter=3000, certify=False, check_every=1)
    certified = solve(problem, random_weights(L2OPA, 0), 5 + torch.zeros(30, dtype=F64), max_iter=3000)
    assert certified.converged.all()
    same = solve(problem, random_weights(L2OPA, 0), max_iter=3000, check_every=1)
    assert (same.iterations <= 1.1 * plain.iterations).all()


def test_diverging_optimizer_plain_and_certified():
    problem, x0 = random_problem("lasso", batch=3), normal(3, 12, seed=5)
    plain = solve(problem, ADVERSARIES["ten steps in one"], x0, certify=False)
    assert all(status is Status.DIVERGED for status in plain.status)
    assert solve(problem, ADVERSARIES["ten steps in one"], x0).converged.all()


@MODES
def test_what_the_solution_says(certify):
    problem, x0 = random_problem("lasso", batch=3), normal(3, 12, seed=5)
    best = sp.reference(problem)
    radius = (x0 - best.x).norm(dim=1)
    solution = solve(problem, NAN, x0, max_iter=57, tol=1e-14, certify=certify)
    steps = {True: 57, "audit": 57 / 6 - 1, "cheap": 5}[certify]
    L = 1 / problem.step_size()
    assert (solution.rate <= 2 * L / (steps + 1) ** 2).all()
    assert (solution.rate >= L / (2 * (steps + 1) ** 2)).all()  # not smaller than what the theorem gives
    assert (solution.objective - best.objective <= solution.bound(radius) + 1e-14).all()
    assert (solution.bound(radius) <= torch.minimum(solution.gap, solution.rate * radius**2)).all()
    assert solution.rejected.tolist() == [0, 0, 0]
    assert not solution.refined.any()
    assert solution.track.shape == (3,)
    assert all(isinstance(track, Track) for track in solution.track)
    assert solution.pull_backs.tolist() == ([2, 2, 2] if certify is True else [1, 1, 1])


def test_the_bound_of_a_start_that_is_the_solution_is_a_number():
    problem = random_problem("lasso", ratio=1.5)  # solved by zero, so that no iteration gives a rate
    solution = solve(problem, FISTA())
    assert torch.isinf(solution.rate).all()
    assert torch.equal(solution.bound(0.0), solution.gap)


def test_without_the_guarantee_nothing_is_claimed():
    solution = solve(random_problem("lasso"), ISTA(), max_iter=5, certify=False)
    assert torch.isinf(solution.rate).all()
    assert torch.isinf(solution.bound(1.0)[solution.gap == torch.inf]).all()
    assert {*solution.track} == {Track.OPTIMIZER}
    assert solution.pull_backs.tolist() == solution.rejected.tolist() == [0, 0, 0]
    assert not solution.refined.any()


def test_no_iteration_no_claim():
    solution = solve(random_problem("lasso"), NAN, normal(3, 12), max_iter=0)
    assert torch.isinf(solution.rate).all()


@MODES
def test_history_is_the_best_point_and_independent_of_the_checks(certify):
    problem, x0 = random_problem("lasso", batch=3, ratio=0.01), normal(3, 12, seed=5)
    optimizer = random_weights(L2OPA, 0)
    names = ("objective", "step_norm")
    recorded = solve(problem, optimizer, x0, max_iter=90, tol=1e-13, certify=certify, record=names)
    values = recorded.history["objective"]
    assert values.shape == (91, 3)
    assert (values[1:] <= values[:-1] * (1 + 1e-14)).all()
    seldom = solve(problem, optimizer, x0, max_iter=90, tol=1e-13, certify=certify, check_every=30)
    assert torch.equal(seldom.x, recorded.x)
    assert torch.equal(seldom.pull_backs, recorded.pull_backs)
    for k in (16, 33):
        stopped = solve(problem, optimizer, x0, max_iter=k, tol=1e-13, certify=certify)
        if certify == "audit":  # between audits only points that are measured count, which a record makes more
            assert (stopped.objective >= values[k] * (1 - 1e-13)).all()
        else:
            torch.testing.assert_close(stopped.objective, values[k], rtol=1e-13, atol=0)


@MODES
def test_neighbours_finishing_early_do_not_change_an_answer(certify):
    A, b = normal(6, 20, 30), normal(6, 20, seed=1)
    free = sp.lasso(A, b, 0.0)
    ratio = torch.tensor([0.8, 0.7, 0.6, 0.5, 0.1, 0.01], dtype=F64)
    problem = sp.lasso(A, b, ratio * free.scale()[1])
    together = solve(problem, ADVERSARIES["ascent"], max_iter=400, certify=certify)
    assert len({*together.iterations.tolist()}) > 2
    for i in (1, 4):
        alone = solve(problem.select(torch.tensor([i])), ADVERSARIES["ascent"], max_iter=400, certify=certify)
        torch.testing.assert_close(alone.x[0], together.x[i], rtol=1e-11, atol=1e-13)
        assert alone.iterations[0] == together.iterations[i]
        assert alone.track[0] is together.track[i]


# --- float32 ----------------------------------------------------------------------------------------------------------


@MODES
@KINDS
def test_what_float32_cannot_reach_is_finished_in_float64(kind, certify):
    problem = random_problem(kind, batch=4, m=40, n=20).to(dtype=torch.float32)
    optimizer = FISTA(restart=True)
    plain = solve(problem, optimizer, max_iter=800, tol=1e-10, certify=False)
    assert not plain.converged.any()
    solution = solve(problem, optimizer, max_iter=800, tol=1e-10, certify=certify)
    assert solution.converged.all()
    assert solution.refined.all()
    assert solution.x.dtype == F64
    exact = problem.to(dtype=F64)
    best = sp.reference(exact).objective
    torch.testing.assert_close(exact.objective(solution.x), solution.objective, rtol=1e-14, atol=0)
    assert (solution.objective - best <= 1e-10 * best).all()
    assert (solution.iterations < 800).all()


def test_float32_that_suffices_stays_float32():
    problem = random_problem("lasso", batch=4, m=40, n=20).to(dtype=torch.float32)
    solution = solve(problem, FISTA(restart=True), max_iter=800, tol=1e-4)
    assert solution.converged.all()
    assert not solution.refined.any()
    assert solution.x.dtype == torch.float32


def test_only_the_instances_that_need_it_go_on_and_the_history_goes_with_them():
    A, b = normal(4, 40, 20), normal(4, 40, seed=1)
    ratio = torch.tensor([0.1, 2.0, 0.3, 2.0], dtype=F64)
    problem = sp.lasso(A, b, ratio * sp.lasso(A, b, 0.0).scale()[1]).to(dtype=torch.float32)
    names = ("objective", "gap", "step_norm")
    solution = solve(problem, ISTA(), normal(4, 20, seed=2).float(), max_iter=900, tol=1e-10, record=names)
    assert solution.converged.all()
    assert solution.refined.tolist() == [True, False, True, False]
    length = int(solution.iterations.max()) + 1
    for name in names:
        assert solution.history[name].shape == (length, 4)
    for i in range(4):
        k = int(solution.iterations[i])
        values = solution.history["objective"][:, i]
        assert (values[1:] <= values[:-1] * (1 + 1e-14)).all()
        assert values[k] == solution.objective[i]
        assert (solution.history["gap"][k:, i] == solution.gap[i]).all()
        assert (solution.history["step_norm"][k + 1 :, i] == 0).all()
    alone = solve(problem.select(torch.tensor([2])), ISTA(), normal(4, 20, seed=2)[2:3].float(), 900, 1e-10)
    torch.testing.assert_close(alone.x[0], solution.x[2], rtol=1e-6, atol=1e-7)


def test_the_iteration_limit_counts_both_precisions():
    problem = random_problem("lasso", batch=3, m=40, n=20).to(dtype=torch.float32)
    full = solve(problem, FISTA(restart=True), max_iter=800, tol=1e-10, check_every=1)
    limit = int(full.iterations.max()) - 1
    cut = solve(problem, FISTA(restart=True), max_iter=limit, tol=1e-10, check_every=1)
    assert int(cut.iterations.max()) == limit
    assert cut.converged.tolist() == (full.iterations <= limit).tolist()


def test_a_step_size_for_each_instance_goes_with_it_into_float64():
    problem = random_problem("lasso", batch=4, m=40, n=20).to(dtype=torch.float32)
    step = problem.step_size() * torch.tensor([1.0, 0.5, 3.0, 1e4])
    seen: list[sp.Progress] = []
    solution = solve(problem, ISTA(), max_iter=900, tol=1e-9, step_size=step, callback=seen.append)
    assert solution.converged.all()
    assert solution.refined.any()
    assert (solution.rejected[2:] >= 1).all()
    assert solution.rejected[:2].tolist() == [0, 0]
    assert [p.k for p in seen] == sorted(p.k for p in seen)
    assert {p.max_iter for p in seen} == {900}


def test_own_smooth_part_that_cannot_be_cut_is_finished_in_float64_too():
    class Whole(LeastSquares):
        batched = None

    problem = random_problem("lasso", batch=3, m=40, n=20).to(dtype=torch.float32)
    own = sp.Problem(Whole(problem.f.A, problem.f.b), problem.r)
    assert not own.selectable
    solution = solve(own, FISTA(restart=True), max_iter=1500, tol=1e-8)
    assert solution.converged.all()
    assert solution.refined.any()


# --- problems without a duality gap -----------------------------------------------------------------------------------


def test_a_posteriori_certificate_where_no_gap_is_known():
    w, c = normal(4, 7).abs() + 0.01, 3 * normal(4, 7, seed=1)
    problem, x0 = sp.Problem(Ridge(w, c), Ball()), 0.5 * torch.ones(4, 7, dtype=F64)
    exact = c.clamp(-1, 1)
    best, radius = problem.objective(exact), (x0 - exact).norm(dim=1)
    assert not problem.has_duality_gap
    sharper = 0
    for optimizer in (FISTA(restart=True), NAN, Adam()):
        for steps in (1, 4, 16, 64):
            for long in (1.0, 20.0):
                step = long * problem.step_size()
                solution = solve(problem, optimizer, x0, max_iter=steps, tol=1e-15, certify=True, step_size=step)
                bound = solution.bound(radius)
                assert torch.isinf(solution.gap).all()
                assert (solution.objective - best <= bound + 1e-13).all()
                assert (bound <= solution.rate * radius**2).all()
                sharper += int((bound < 0.9 * solution.rate * radius**2).sum())
    assert sharper > 20  # it is better than the rate alone, not only equal to it


# --- gradients, arguments ---------------------------------------------------------------------------------------------


@MODES
def test_gradient_of_the_certified_answer(certify):
    A, b, w = normal(2, 8, 5), normal(2, 8, seed=1), normal(2, 5, seed=2)

    def answer(b):
        problem = sp.lasso(A, b, 0.2)
        return (w * solve(problem, ISTA(), max_iter=120, tol=1e-11, certify=certify).x).sum()

    variable = b.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(answer(variable), variable)
    for i, j in ((0, 0), (1, 3)):
        h = torch.zeros_like(b)
        h[i, j] = 1e-5
        with torch.no_grad():
            difference = (answer(b + h) - answer(b - h)) / 2e-5
        assert float(gradient[i, j]) == pytest.approx(float(difference), rel=1e-4, abs=1e-7)


def test_an_optimizer_that_is_certified_already_is_not_wrapped_again():
    problem, x0 = random_problem("lasso"), normal(3, 12)
    for mode, certify in ((Certified, True), (Audited, "audit"), (CertifiedCheap, "cheap")):
        inside = solve(problem, mode(Adam()), x0, max_iter=30)
        assert torch.equal(inside.x, solve(problem, Adam(), x0, max_iter=30, certify=certify).x)


def test_wrong_certify_is_refused():
    for wrong in ("fast", 2, None):
        refused(lambda wrong=wrong: solve(random_problem("lasso"), ISTA(), certify=wrong), "certify is", "'cheap'")


def test_pretrained_by_name_certified():
    problem = random_problem("lasso", batch=2)
    solution = solve(problem, "go-math-l2o/lasso", max_iter=2000)
    assert solution.converged.all()
    assert isinstance(solution.track, np.ndarray)
