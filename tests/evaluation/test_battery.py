"""The battery: its kinds, how iterations are counted, its records, and what is made of them."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import sureprox as sp
from evaluation_cases import CPU
from helpers import refused
from sureprox.evaluation import RecordError
from sureprox.evaluation.battery import Battery, Plan, chosen, count_products, draw, first_hits
from sureprox.evaluation.battery_forms import FORM_KINDS, Drawn
from sureprox.evaluation.battery_kinds import KINDS, Kind, LassoDesign, LogisticDesign
from sureprox.evaluation.battery_records import KindRecord, read_records, write_records
from sureprox.evaluation.datasets import solved
from sureprox.optimizers import FISTA, L2OPA, GoMathL2O, Optimizer, Sure
from sureprox.report.battery import compact, draw_profile, markdown, plain_defaults, profile, slower, speedup, summaries
from sureprox.sources import ElasticNetFamily, GroupFamily
from sureprox.sources.designs import autoregressive, lasso_lam_max, logistic_lam_max, normal

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
SMALL = Kind("small", "lasso", True, LassoDesign(m=20, n=30, nonzeros=4))


def record(optimizer: str, iterations: list[int | None], **changes) -> KindRecord:
    """A made-up record, the same iterations at every level."""
    made = KindRecord(
        kind="lasso",
        family="lasso",
        trained=True,
        optimizer=optimizer,
        weights=None,
        origin="made up",
        seed=0,
        instances=len(iterations),
        size=(20, 30),
        precision=1e-13,
        dtype="float32",
        most=1000,
        products_at_start=2,
        products=2,
        seconds=0.5,
        iterations={level: list(iterations) for level in (1e-3, 1e-6, 1e-9)},
        device="CPU",
        date="2026-01-02",
        versions={"torch": "2"},
    )
    return replace(made, **changes)


# --- kinds ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(KINDS))
def test_every_kind_draws_problems_that_are_exact_in_float32(name, monkeypatch):
    if name in ("ionosphere", "spambase", "patches"):
        if not DATA.is_dir():
            pytest.skip(f"no data: {DATA} is not there (the repository was checked out alone)")
        monkeypatch.setenv("SUREPROX_DATA", str(DATA))
    one, other = draw(KINDS[name], 2, 0), draw(KINDS[name], 2, 1)
    problem = one.problem
    assert (problem.batch, problem.dtype) == (2, torch.float64)
    assert one.start.shape == (2, problem.n)
    assert all(torch.equal(t, t.float().double()) for t in (*problem.tensors(), one.start))
    assert one.fingerprint == draw(KINDS[name], 2, 0).fingerprint != other.fingerprint
    assert isinstance(problem.f, sp.problems.LeastSquares) == (KINDS[name].family == "lasso")
    at_zero = problem.grad(torch.zeros_like(one.start)).abs().amax(1)
    assert bool((problem.r.lam < at_zero).all())  # no solution is zero


def test_kinds_are_kept_out_of_training_for_both_families():
    for family in ("lasso", "logistic"):
        kept_out = [kind for kind in KINDS.values() if kind.family == family and not kind.trained]
        assert len(kept_out) >= 5
    assert all(name == kind.name for name, kind in KINDS.items())


def test_designs_do_what_they_say(generator):
    problem, start, _ = LassoDesign(m=400, n=6, nonzeros=3, ratio=0.2, spread=100.0, shift=7.0)(50, generator)
    norms = torch.linalg.vector_norm(problem.f.A, dim=1)
    assert 0.01 <= float(norms.min()) < 0.02
    assert 0.9 < float(norms.max()) <= 1.0
    assert abs(float(start.mean()) - 7) < 0.2
    torch.testing.assert_close(problem.r.lam, 0.2 * lasso_lam_max(problem.f.A, problem.f.b))
    rare, *_ = LogisticDesign(m=4000, n=6, nonzeros=3, offset=-4.0, ratio=0.5)(5, generator)
    assert float(rare.f.y.mean()) < 0.1
    A = autoregressive(normal(generator, 2, 4000, 3), 0.8)
    assert float((A[..., 0] * A[..., 1]).mean()) == pytest.approx(0.8, abs=0.05)
    assert float((A[..., 0] * A[..., 2]).mean()) == pytest.approx(0.64, abs=0.05)
    assert float(A.square().mean()) == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize("design", [LassoDesign(m=30, n=20), LogisticDesign(m=60, n=10, nonzeros=5)])
def test_lam_max_is_the_smallest_lam_whose_solution_is_zero(design, generator):
    problem, *_ = design(3, generator)
    largest = lasso_lam_max if isinstance(design, LassoDesign) else logistic_lam_max
    rhs = problem.f.b if isinstance(design, LassoDesign) else problem.f.y
    make = sp.lasso if isinstance(design, LassoDesign) else sp.logistic
    zero = torch.zeros(3, problem.n, dtype=torch.float64)
    assert float(make(problem.f.A, rhs, 1.001 * largest(problem.f.A, rhs)).kkt_residual(zero).max()) == 0
    assert float(make(problem.f.A, rhs, 0.999 * largest(problem.f.A, rhs)).kkt_residual(zero).min()) > 0


def test_chosen_kinds():
    assert [k.name for k in chosen(["patches", "lasso", "patches"])] == ["patches", "lasso"]
    assert {k.family for k in chosen(["all-logistic"])} == {"logistic"}
    assert len(chosen([])) == len(KINDS)
    refused(lambda: chosen(["laso"]), "no kind 'laso'", "lasso-noise")


# --- counting ---------------------------------------------------------------------------------------------------------


def test_first_hits_are_those_of_the_whole_path(tmp_path):
    data = solved(draw(SMALL, 3, 0), tmp_path, CPU)
    problem = data.problem.to(dtype=torch.float32)
    hits = first_hits(FISTA(restart=True), problem, data, torch.float32, 2000)
    state, gaps = FISTA().init(problem, data.start.float()), []
    state = FISTA(restart=True).init(problem, data.start.float())
    gaps.append((data.problem.objective(state.x.double()) - data.best) / data.best)
    for after in sp.iterate(problem, FISTA(restart=True), state, 2000):
        gaps.append((data.problem.objective(after.x.double()) - data.best) / data.best)
    path = torch.stack(gaps)
    for level, hit in hits.items():
        expected = (path <= level).int().argmax(0)
        assert bool((hit >= expected).all())
        assert bool((hit <= expected + expected // 200).all())
    assert torch.equal(hits[1e-3], (path <= 1e-3).int().argmax(0))


class Backwards(Optimizer):
    """Away from the solution."""

    def init(self, problem, x0, *, generator=None, step_size=None):
        return sp.optimizers.ISTA().init(problem, x0)

    def step(self, problem, state):
        return replace(state, x=1e3 * state.x, k=state.k + 1)


def test_who_diverges_never_hits(tmp_path):
    data = solved(draw(SMALL, 2, 0), tmp_path, CPU)
    hits = first_hits(Backwards(), data.problem.to(dtype=torch.float32), data, torch.float32, 300)
    assert all(hit.tolist() == [-1, -1] for hit in hits.values())


def test_products_with_A_are_counted():
    problem, x0 = sp.lasso(torch.randn(2, 6, 9), torch.randn(2, 6), 0.1), torch.zeros(2, 9)
    for optimizer in (FISTA(), L2OPA(), Sure(), Sure(coordinate=0, conjugate=True)):
        assert count_products(optimizer, problem, x0) == (0, 2)
    assert count_products(GoMathL2O(), problem, x0) == (2, 2)


def test_a_kind_is_run_for_every_optimizer_that_is_there(tmp_path):
    torch.manual_seed(0)
    sp.save(Sure(), tmp_path / "weights" / "sure" / "lasso" / "model")  # as a training run leaves it
    told = []
    battery = Battery(Plan(batch=3, most=3000), tmp_path, CPU, tmp_path / "weights", ["sure", "sure/other"])
    found = battery.run(SMALL, told.append)
    assert [r.optimizer for r in found] == ["fista-restart", "fista", "sure"]
    assert [t for t in told if isinstance(t, str)] == ["no pretrained sure/other"]
    baseline = found[0]
    assert all(r.instances == 3 and r.trained and r.size == (20, 30) for r in found)
    assert baseline.failures() == 0
    assert baseline.seconds > 0
    assert found[1].most <= 3 * max(baseline.iterations[1e-9]) + 50
    assert found[2].weights is not None
    refused(lambda: Battery(Plan(), tmp_path, CPU, None, ["shure"]).run(SMALL), "no optimizer 'shure'", "sure-light")
    refused(lambda: Battery(Plan(batch=0), tmp_path, CPU), "batch is 0")


# --- records ----------------------------------------------------------------------------------------------------------


def test_records_come_back_from_disk(tmp_path):
    records = [record("fista-restart", [1, None, 3]), record("sure", [1, 2, 3], weights="abc", trained=False)]
    write_records(tmp_path / "battery.json", records)
    assert read_records(tmp_path / "battery.json") == records
    refused(lambda: read_records(tmp_path / "other.json"), "there is no record", "bench battery", error=RecordError)
    for damaged in ("[", '[{"format": 2}]', '[{"format": 1}]', "[3]", "{}x"):
        (tmp_path / "bad.json").write_text(damaged)
        refused(lambda: read_records(tmp_path / "bad.json"), "is not a record of the battery", error=RecordError)


def test_quantiles_and_products():
    r = record("sure", [10, 20, 30, 40, 50, 60, 70, 80, 90, None])
    assert (r.quantile(1e-6, 0.5), r.quantile(1e-6, 0.9), r.quantile(1e-6, 1.0)) == (50, 90, None)
    assert r.products_to(1e-6) == 2 + 2 * 50
    assert r.failures() == 1
    assert record("sure", [None, None]).products_to(1e-6) is None


def test_speedups_and_summaries():
    base, ours = record("fista-restart", [100, 200, 300]), record("sure", [50, 100, 400])
    hard = [replace(r, kind="hard", trained=False) for r in (record("fista-restart", [90]), record("sure", [10]))]
    assert speedup(ours, base) == 2
    assert slower(ours, base) == 1
    assert speedup(record("sure", [None]), record("fista-restart", [100])) == 0.1
    assert slower(record("sure", [None, 5]), record("fista-restart", [100, None])) == 1
    (summary,) = summaries([base, ours, *hard])
    assert summary.mean == pytest.approx(math.sqrt(2 * 9))
    assert summary.kept_out == pytest.approx(9)
    assert (summary.worst, summary.worst_kind) == (2, "lasso")
    assert (summary.failures, summary.slower, summary.instances, summary.kinds) == (0, 1, 4, 2)


def test_profile_is_the_share_within_a_factor_of_the_best():
    curves = profile([record("fista-restart", [10, 10, 10, None]), record("sure", [5, 20, 10, 40])])
    assert curves["sure"] == [(1.0, 0.0), (1.0, 0.25), (1.0, 0.5), (1.0, 0.75), (2.0, 1.0)]
    assert curves["fista-restart"] == [(1.0, 0.0), (1.0, 0.25), (1.0, 0.5), (2.0, 0.75)]


def test_tables_and_figure(tmp_path):
    records = [record("fista-restart", [100, 200]), record("sure", [50, None], trained=True)]
    headings, rows = compact(records)
    assert headings == ["FISTA with restart", "Sure"]
    assert rows == [["lasso", "trained", "100/100/100", "50/50/50"]]
    text = markdown(records)
    assert "| lasso | Sure | 1 | 2.00 |  | 2.00 (lasso) | 1 of 2 | 1 |" in text
    assert "| lasso * | 20 x 30 | 2 | Sure | 50 (never) | 50 (never) | 50 (never) | 102 | 0.5 | 1 |" in text
    draw_profile(records, tmp_path / "figure" / "battery.png")
    assert (tmp_path / "figure" / "battery.png").stat().st_size > 10_000


# --- forms ------------------------------------------------------------------------------------------------------------


def test_forms_are_a_group_of_their_own():
    assert [k.name for k in chosen(["forms"])] == list(FORM_KINDS)
    assert len(FORM_KINDS) >= 12
    assert not set(FORM_KINDS) & set(KINDS)
    assert {(k.family, k.trained) for k in FORM_KINDS.values()} == {("forms", False)}
    assert [k.name for k in chosen(["huber", "lasso"])] == ["huber", "lasso"]
    assert not any(k.family == "forms" for k in chosen([]))


@pytest.mark.parametrize("name", list(FORM_KINDS))
def test_every_form_draws_problems_that_are_exact_in_float32(name):
    one, other = draw(FORM_KINDS[name], 2, 0), draw(FORM_KINDS[name], 2, 1)
    problem = one.problem
    assert (problem.batch, problem.dtype) == (2, torch.float64)
    assert all(torch.equal(t, t.float().to(t.dtype)) for t in (*problem.tensors(), one.start))
    assert one.fingerprint == draw(FORM_KINDS[name], 2, 0).fingerprint != other.fingerprint
    assert bool(torch.isfinite(problem.objective(one.start)).all())
    assert float(problem.kkt_residual(torch.zeros_like(one.start)).min()) > 0.01  # no solution is zero


@pytest.mark.parametrize("family", [ElasticNetFamily(m=20, n=30, nonzeros=4), GroupFamily(m=20, n=30, nonzeros=5)])
def test_the_default_runs_against_the_baseline_on_forms(tmp_path, family):
    kind = Kind("small", "forms", False, Drawn(family))
    told = []
    found = Battery(Plan(batch=2, most=3000), tmp_path, CPU, None, ["sure"]).run(kind, told.append)
    assert [r.optimizer for r in found] == ["fista-restart", "fista", "default"]
    (line,) = [t for t in told if isinstance(t, str)]
    assert "left to the default" in line
    default, baseline = found[2], found[0]
    assert default.failures() == baseline.failures() == 0
    for level in (1e-3, 1e-6):  # certified, it is never above what restarted FISTA has reached
        assert all(
            ours <= theirs for ours, theirs in zip(default.iterations[level], baseline.iterations[level], strict=True)
        )
    assert default.weights is None
    assert baseline.precision <= 1e-12
    text = markdown(found)
    assert "On small no learned optimizer is the default of solve" in text
    assert "default of solve" in compact(found)[0]


def test_the_default_on_lasso_is_sure_and_nothing_is_said(tmp_path):
    found = Battery(Plan(batch=2, most=2000), tmp_path, CPU, None, ["default"]).run(SMALL)
    assert found[-1].optimizer == "default"
    assert found[-1].weights is not None
    assert plain_defaults(found) == ""
