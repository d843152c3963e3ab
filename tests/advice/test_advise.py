"""`advise`: the race with made-up solvers whose times are known, and the whole of it on small problems."""

import json
import subprocess
import sys
import time
from dataclasses import FrozenInstanceError

import pytest
import torch

import sureprox as sp
from helpers import F64, normal
from sureprox.advice import measure
from sureprox.advice.measure import Race
from sureprox.advice.peers import externals
from sureprox.advice.solvers import OutOfTimeError, suitable
from sureprox.base.errors import InputError
from sureprox.evaluation import experiment
from sureprox.solve.stopping import StoppingRule

NONE: list[str] = []


def problems(batch: int = 40) -> sp.Problem:
    return sp.lasso(normal(20, 10), normal(batch, 20, seed=1), 1.0)


class Sleeper:
    """Knows the answer, and takes `fixed` + `each` seconds for every problem to say it."""

    def __init__(self, name, fixed=0.0, each=0.0, *, batched=False, tightenings=0, wrong=False, error=None):
        self.name, self.fixed, self.each, self.batched = name, fixed, each, batched
        self.tightenings, self.wrong, self.error = tightenings, wrong, error
        self.counts = []

    @property
    def call(self):
        return f"{self.name}({self.tightenings})"

    def prepare(self, problem):
        return problem, sp.reference(problem, 1e-9).x

    def run(self, prepared, deadline):
        problem, x = prepared
        if self.error is not None:
            raise self.error
        if time.perf_counter() + self.fixed + self.each * problem.batch > deadline:
            raise OutOfTimeError
        time.sleep(self.fixed + self.each * problem.batch)
        self.counts.append(problem.batch)
        return torch.zeros_like(x) if self.wrong or self.tightenings else x

    def tighten(self):
        self.tightenings -= 1
        return self.tightenings >= 0


class Clock:
    """Stands for the module `time`: it goes on while somebody sleeps and not otherwise, however busy a machine is."""

    def __init__(self):
        self.now = 0.0

    def perf_counter(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    for module in (measure, experiment, sys.modules[__name__]):
        monkeypatch.setattr(module, "time", clock)
    return clock


def race(*solvers, batch=40, sample=1024, budget=10.0, baseline="none"):
    return {t.solver: t for t in Race(problems(batch), sample, 1e-6, budget).run(solvers, baseline)}


@pytest.mark.usefixtures("clock")
def test_batches_are_estimated_by_their_slope_and_others_by_their_mean():
    one_by_one = Sleeper("one by one", each=0.004)
    batched = Sleeper("batched", fixed=0.05, each=0.0005, batched=True)
    found = race(one_by_one, batched)
    assert found["one by one"].whole == pytest.approx(0.16)
    assert found["batched"].whole == pytest.approx(0.07)
    assert set(one_by_one.counts) == {4, 16}
    assert set(batched.counts) == {4, 16, 40}
    assert found["batched"].sample == 40
    estimated = race(one_by_one, Sleeper("batched", fixed=0.05, each=0.0005, batched=True), sample=16)["batched"]
    assert estimated.sample == 16
    assert estimated.whole == pytest.approx(0.07)


@pytest.mark.usefixtures("clock")
def test_who_cannot_win_is_not_measured_further_but_the_baseline_is():
    quick, slow = Sleeper("quick", each=0.0005), Sleeper("slow", fixed=0.2, batched=True)
    baseline = Sleeper("baseline", fixed=0.15, batched=True)
    found = race(quick, slow, baseline, baseline="baseline")
    assert set(slow.counts) == {4}
    assert max(baseline.counts) >= 16
    assert min(found.values(), key=lambda t: t.whole).solver == "quick"


@pytest.mark.usefixtures("clock")
def test_tolerance_is_tightened_until_the_certificate_holds():
    solver = Sleeper("loose", tightenings=3)
    found = race(solver)["loose"]
    assert found.whole is not None
    assert found.call == "loose(0)"
    assert "4 of 4 problems not solved to 1e-06" in race(Sleeper("wrong", wrong=True))["wrong"].note


@pytest.mark.usefixtures("clock")
def test_failures_are_noted_and_do_not_stop_the_race():
    found = race(Sleeper("broken", error=RuntimeError("no\nluck")), Sleeper("fine"))
    assert found["broken"].note == "failed, RuntimeError: no luck"
    assert found["broken"].whole is None
    assert found["fine"].whole is not None


def test_the_budget_is_kept(clock):
    found = race(Sleeper("first", each=0.01), Sleeper("endless", fixed=100.0, batched=True), budget=1.0)
    assert 0.1 < clock.now <= 1.0
    assert "stopped after" in found["endless"].note
    assert found["endless"].whole is None


# --- the whole of it -------------------------------------------------------------------------------------------------


def test_a_single_dense_lasso_problem_on_a_cpu_is_not_for_us():
    pytest.importorskip("sklearn")
    problem = sp.lasso(normal(100, 200), normal(100, seed=1), 20.0)
    found = sp.advise(problem, models=NONE, budget=60.0)
    assert found.solver.startswith(("scikit-learn", "celer"))
    assert found.call.startswith(("sklearn.linear_model.Lasso(", "celer.Lasso("))
    times = [timing.whole for timing in found.timings if timing.whole is not None]
    assert times == sorted(times)
    assert found.timing("restarted FISTA").whole > times[0]
    first, second = found.reason.split(". ", 1)
    assert first.startswith("It takes ")
    assert second.startswith(f"The next fastest, {found.timings[1].solver}, takes ")
    assert len(found.reason) < 120
    with pytest.raises(FrozenInstanceError):
        found.solver = "ours"


def test_advice_with_a_model_can_be_read_and_saved(tmp_path):
    family = {"name": "lasso", "m": 20, "n": 10, "nonzeros": 2}
    (tmp_path / "kind").mkdir()
    sp.save(sp.optimizers.GoMathL2O(hidden=4), tmp_path / "kind" / "model", family=family)
    name = str(tmp_path / "kind" / "model")
    found = sp.advise(problems(), models=[name], budget=60.0, tol=1e-4)
    text = str(found)
    assert text.startswith(f"use {found.solver}\n")
    assert found.call in text
    (known,) = found.familiarity
    assert known.model == name
    assert 0 < known.score < 1
    saved = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    assert saved["solver"] == found.solver
    assert {entry["solver"] for entry in saved["timings"]} >= {name, "restarted FISTA"}
    assert found.timing(name).whole is not None or found.timing(name).note


def test_absent_packages_are_named(monkeypatch):
    for package in ("sklearn", "sklearn.linear_model", "celer"):
        monkeypatch.setitem(sys.modules, package, None)
    found = sp.advise(problems(4), models=NONE, budget=60.0)
    assert found.solver == "restarted FISTA"
    assert found.timing("scikit-learn").note == "not measured: not installed; pip install scikit-learn"
    assert found.timing("celer").note == "not measured: not installed; pip install celer"


def test_nothing_in_time_is_said():
    found = sp.advise(problems(4), models=NONE, budget=1e-9)
    assert found.solver is None
    assert "raise budget or tol" in found.reason
    assert str(found).startswith("no solver to recommend")


def test_problems_of_ones_own_and_without_a_penalty():
    base = problems(2)
    found = sp.advise(sp.Problem(base.f, sp.problems.Zero()), models=NONE, budget=60.0)
    assert found.solver == "restarted FISTA"
    assert "other problems" in found.timing("scikit-learn").note
    assert externals(sp.lasso(base.f.A, base.f.b, 0.0), 1e-6)[0] == []
    assert "one class" in externals(sp.logistic(base.f.A, torch.ones(20, dtype=F64), 0.1), 1e-6)[1]["scikit-learn"]


def test_suitable_models_are_those_of_the_kind():
    lasso, logistic = suitable(problems(2)), suitable(sp.logistic(normal(20, 10), (normal(20) > 0).double(), 0.1))
    assert "go-math-l2o/lasso" in lasso
    assert "go-math-l2o/logistic" in logistic
    assert not set(lasso) & set(logistic)
    assert "go-math-l2o/lasso-std" not in lasso
    assert "ada-lista/lasso" not in lasso  # it is for 250 rows
    assert "ada-lista/lasso" in suitable(sp.lasso(normal(250, 3), normal(250), 1.0))


@pytest.mark.parametrize("kind", ["lasso", "shared", "logistic"])
def test_other_packages_solve_our_problem(kind):
    """The conversion of lam and of a shift: our certificate accepts their solutions."""
    pytest.importorskip("sklearn")
    if kind == "logistic":
        problem = sp.logistic(normal(3, 40, 8), (normal(3, 40, seed=1) > 0).double(), 0.02)
    else:
        problem = sp.lasso(normal(20, 30) if kind == "shared" else normal(3, 20, 30), normal(3, 20, seed=1), 3.0)
    problem = problem.shifted(0.5)
    solvers, _ = externals(problem, 1e-7)
    assert len(solvers) >= 2
    rule = StoppingRule(problem, problem.start(), 1e-7)
    for solver in solvers:
        while not bool(rule.measure(solver.run(solver.prepare(problem), float("inf"))).converged.all()):
            assert solver.tighten(), solver.name
        assert f"tol={solver.tol:.0e}" in solver.call


def test_bad_input_is_one_line():
    for options, expected in (
        ({"tol": 0.0}, "tol is 0.0"),
        ({"budget": 0}, "budget is 0"),
        ({"sample": 0}, "sample is 0"),
    ):
        with pytest.raises(sp.InputError, match=expected):
            sp.advise(problems(2), **options)
    with pytest.raises(sp.InputError, match="problem is a int"):
        sp.advise(3)
    with pytest.raises(sp.WeightsError, match="no model"):
        sp.advise(problems(2), models=["no/model"])


def test_importing_sureprox_does_not_import_advice():
    code = "import sys, sureprox; assert 'sureprox.advice' not in sys.modules; assert callable(sureprox.advise)"
    assert subprocess.run([sys.executable, "-c", code], timeout=240).returncode == 0


def test_the_engine_reaches_our_solvers(monkeypatch):
    asked = []

    def solve(*given, engine, **options):
        asked.append(engine)
        return sp.solve(*given, engine=engine, **options)

    monkeypatch.setattr("sureprox.advice.solvers.solve", solve)
    problem = sp.lasso(normal(2, 10, 20), normal(2, 10), 0.5)
    found = sp.advise(problem, models=[], budget=2.0, engine="plain")
    assert set(asked) == {"plain"}
    ours = next(timing for timing in found.timings if timing.solver == "restarted FISTA")
    assert ours.call.endswith("engine='plain')")
    with pytest.raises(InputError, match="engine is 'quick'"):
        sp.advise(problem, engine="quick")
