"""A plan depends on one instance and on the engine asked for, and on nothing else; what ran is said."""

import os
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import pytest
import torch

import sureprox as sp
from helpers import normal, random_problem, refused
from sureprox.base.operations import PLAIN
from sureprox.kernels.runtime import library as libraries
from sureprox.optimizers import FISTA, ISTA, GoMathL2O, Optimizer, Sure
from sureprox.problems import L1, LeastSquares, Problem, WeightedL1, Zero
from sureprox.problems.forms import Loss, Shape, form_of
from sureprox.solve import plan as plans
from sureprox.solve.plan import Engine, Identity, can_be_recorded, plan
from sureprox.solve.solve import prepare

FORMS = {
    "lasso": random_problem("lasso", 4, 20, 60),
    "lasso, shared": random_problem("lasso", 4, 20, 60, shared=True),
    "lasso, moved": random_problem("lasso", 4, 20, 60).shifted(0.3),
    "logistic": random_problem("logistic", 4, 60, 20),
}


@pytest.fixture
def no_library(monkeypatch):
    """Kernels are not built, and whoever asks for them to be built later is counted."""
    asked = []
    monkeypatch.setattr(plans, "library", lambda build: None)
    monkeypatch.setattr(plans, "build_later", lambda: asked.append(None))
    monkeypatch.setattr(plans, "_plans", plans._Plans(4))
    return asked


@pytest.mark.parametrize("name", FORMS)
def test_the_engine_that_ran_is_said_and_all_engines_agree(name):
    problem = FORMS[name]
    found = {engine: sp.solve(problem, engine=engine, tol=1e-9) for engine in ("auto", "plain", "kernels")}
    assert {engine: solution.engine for engine, solution in found.items()} == {
        "auto": "kernels",
        "plain": "plain",
        "kernels": "kernels",
    }
    for solution in found.values():
        assert bool(solution.converged.all())
        torch.testing.assert_close(solution.objective, found["plain"].objective, rtol=2e-9, atol=0)
    assert torch.equal(found["auto"].x, found["kernels"].x)


def test_small_problems_and_own_parts_are_plain():
    class Own(L1):
        pass

    problem = FORMS["lasso"]
    assert sp.solve(random_problem("lasso", 2, 5, 10), ISTA(), max_iter=1).engine == "plain"
    own = Problem(problem.f, Own(problem.r.lam))
    assert plan(own, ISTA(), engine="kernels").operations.follow is None
    assert sp.solve(problem, engine="plain", max_iter=1).engine == "plain"


def test_kernels_that_are_not_built_leave_the_whole_solve_plain(no_library):
    assert sp.solve(FORMS["lasso"]).engine == "plain"
    asked = len(no_library)  # by who solves without iterations, and by who iterates
    assert asked > 0
    refused(lambda: sp.solve(FORMS["lasso"], engine="kernels"), "engine is 'kernels', but there are none:")
    assert prepare(FORMS["lasso"]) == "plain"
    assert len(no_library) == asked  # who waits has waited


def test_what_is_built_later_is_built_once(monkeypatch):
    done, calls = threading.Event(), []

    def build() -> None:
        calls.append(None)
        done.set()

    monkeypatch.setattr(libraries, "_build_apart", build)
    monkeypatch.setattr(libraries, "_builder", None)
    monkeypatch.setattr(libraries, "_tried", False)
    for _ in range(3):
        libraries.build_later()
    assert done.wait(120)
    assert len(calls) == 1


@pytest.mark.skipif(shutil.which(os.environ.get("CXX") or "c++") is None, reason="needs a C++ compiler")
def test_a_short_program_leaves_the_build_to_a_process_that_outlives_it(tmp_path):
    """Its own solve is plain; a program after it finds the kernels."""
    script = "import torch, sureprox as sp; p = sp.lasso(torch.eye(20)[None], torch.ones(1, 20), 0.1)\n"
    script += "print(sp.solve(p, max_iter=2).engine)"
    environment = os.environ | {"SUREPROX_CACHE": str(tmp_path), "SUREPROX_CHECK_SHAPES": ""}
    environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)

    def engine() -> str:
        command = [sys.executable, "-c", script]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=200).stdout

    assert engine() == "plain\n"
    end = time.monotonic() + 200
    while not list(tmp_path.glob("native-*/*.so")) and time.monotonic() < end:
        time.sleep(0.5)
    assert engine() == "kernels\n"


def test_an_unknown_engine_is_refused(monkeypatch):
    problem = FORMS["lasso"]
    refused(
        lambda: sp.solve(problem, engine="fast"), "engine is 'fast'; choose from 'auto', 'plain', 'kernels', 'compiled'"
    )
    monkeypatch.setenv("SUREPROX_ENGINE", "quick")
    refused(lambda: sp.solve(problem), "SUREPROX_ENGINE is 'quick'; choose from")
    monkeypatch.setenv("SUREPROX_ENGINE", "plain")
    assert sp.solve(problem).engine == "plain"
    assert sp.solve(problem, engine="kernels").engine == "kernels"


def test_gradients_need_plain_steps():
    problem = sp.lasso(FORMS["lasso"].f.A, FORMS["lasso"].f.b.clone().requires_grad_(), 0.1)
    assert sp.solve(problem, max_iter=5).engine == "plain"
    refused(lambda: sp.solve(problem, engine="kernels"), "engine is 'kernels', whose steps carry no gradients")


def test_the_former_name_still_works():
    with pytest.warns(DeprecationWarning, match="compile is now engine"):
        assert sp.solve(FORMS["lasso"], compile=False).engine == "kernels"


def test_compiled_and_cheap_do_not_go_together():
    refused(
        lambda: sp.solve(FORMS["lasso"], engine="compiled", certify="cheap"), "engine is 'compiled' and certify 'cheap'"
    )


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("certify", [True, "audit", "cheap", False])
def test_a_plan_does_not_depend_on_the_size_of_the_batch(name, certify):
    problem, optimizer = FORMS[name], Sure()
    one = plan(problem.select(torch.tensor([2])), optimizer, certify)
    assert one.engine is Engine.KERNELS
    assert one == plan(problem, optimizer, certify)


def test_what_ran_before_changes_nothing():
    small, large = random_problem("lasso", 3, 20, 40, seed=1), random_problem("lasso", 40, 60, 200, seed=2)
    first = sp.solve(small)
    sp.solve(large)
    again = sp.solve(small)
    assert torch.equal(first.x, again.x)
    assert torch.equal(first.gap, again.gap)


@pytest.mark.parametrize("name", FORMS)
def test_neighbours_change_nothing(name):
    problem = FORMS[name]
    together = sp.solve(problem, tol=1e-8)
    for i in range(problem.batch):
        alone = sp.solve(problem.select(torch.tensor([i])), tol=1e-8)
        assert float((alone.x - together.x[i]).abs().max()) <= 1e-12 * float(together.x[i].abs().max())


def test_two_threads_get_the_answers_of_one():
    problems = [random_problem(kind, 6, 30, 50, seed=seed) for kind in ("lasso", "logistic") for seed in (1, 2)]
    alone = [sp.solve(problem) for problem in problems]
    with ThreadPoolExecutor(2) as pool:
        for _ in range(3):
            together = list(pool.map(sp.solve, problems, timeout=240))
            assert all(torch.equal(ours.x, theirs.x) for ours, theirs in zip(together, alone, strict=True))


def test_weights_that_change_are_noticed():
    torch.manual_seed(0)
    optimizer, problem = Sure().double(), FORMS["lasso"]
    before = plan(problem, optimizer, True).key
    assert plan(problem, optimizer, True).key == before
    with torch.no_grad():
        next(optimizer.parameters()).mul_(2)
    assert plan(problem, optimizer, True).key != before


def test_an_optimizer_that_cannot_be_hashed_is_known_by_itself():
    @dataclass
    class Own(Optimizer):
        length: float = 1.0

        def init(self, problem, x0, **options):
            return ISTA().init(problem, x0, **options)

        def move(self, problem, state, seen):
            return ISTA().move(problem, state, seen)

    assert Own() == Own()
    assert Identity(Own()) != Identity(Own())
    assert sp.solve(FORMS["lasso"], Own()).engine == "kernels"


def test_an_optimizer_without_a_move_says_so():
    class Nothing(Optimizer):
        def init(self, problem, x0, **options):
            return ISTA().init(problem, x0, **options)

    problem = FORMS["lasso"]
    state = Nothing().init(problem, torch.zeros_like(problem.f.A[:, 0]))
    with pytest.raises(NotImplementedError, match="Nothing defines neither move nor step"):
        Nothing().step(problem, state)


def test_steps_are_queries_and_moves():
    problem, x0 = FORMS["lasso"], normal(4, 60)
    for optimizer in (FISTA(restart=True), ISTA(), GoMathL2O().double()):
        with torch.no_grad():
            state = optimizer.init(problem, x0)
            for _ in range(3):
                seen = sp.optimizers.base.Seen(problem.grad(optimizer.query(state)))
                assert torch.equal(optimizer.move(problem, state, seen).x, optimizer.step(problem, state).x)
                state = optimizer.step(problem, state)


def test_forms_name_exactly_the_classes_of_this_package():
    class Own(LeastSquares):
        pass

    A, b = normal(2, 5, 20), normal(2, 5)
    plain = form_of(sp.lasso(A, b, 0.1))
    assert (plain.loss, plain.penalty, plain.m, plain.n) == (Loss.SQUARES, Shape.L1, 5, 20)
    assert plain.lasso
    assert plain.own_matrices
    assert form_of(Problem(Own(A, b), L1(0.1))).loss is Loss.OWN
    assert form_of(Problem(LeastSquares(A, b), WeightedL1(torch.ones(20).double()))).penalty is Shape.WEIGHTED_L1
    assert form_of(Problem(LeastSquares(A, b), Zero())).penalty is Shape.ZERO
    assert form_of(sp.lasso(A[:1].expand(2, -1, -1), b, 0.1)) == replace(plain, contiguous=False)
    assert form_of(sp.lasso(A[0], b, 0.1)) == replace(plain, shared=True)
    assert form_of(sp.lasso(A, b, 0.1).shifted(1.0)) == replace(plain, shifted=True)
    assert form_of(sp.lasso(A[:1], b[:1], 0.2)) == plain


def test_plain_operations_are_the_default():
    assert all(value is None for value in vars(PLAIN).values())


def test_only_steps_that_are_all_the_same_are_recorded():
    class Own(FISTA):
        pass

    problem = FORMS["lasso"]
    foreign = Problem(problem.f, type("Other", (L1,), {})(problem.r.lam))
    for optimizer in (ISTA(), FISTA(), Sure(), GoMathL2O(), sp.optimizers.L2OPA(), sp.optimizers.RNNProp()):
        assert can_be_recorded(plan(problem, optimizer, True, "plain"))
        assert not can_be_recorded(plan(problem, optimizer, "cheap", "plain")) or type(optimizer) is FISTA
        assert not can_be_recorded(plan(foreign, optimizer, True, "plain"))
    for optimizer in (sp.optimizers.Adam(), sp.optimizers.AdamHD(), sp.optimizers.AdaLISTA(20), Own()):
        assert not can_be_recorded(plan(problem, optimizer, True, "plain"))
