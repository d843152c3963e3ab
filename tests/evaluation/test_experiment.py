"""One curve: what is recorded when, divergence, chunks, precision, time."""

import math

import pytest
import torch

import sureprox as sp
from evaluation_cases import SMALL, Exploding, small_dataset
from helpers import refused
from sureprox.evaluation import datasets, experiment
from sureprox.evaluation.experiment import grid, trace
from sureprox.evaluation.records import columns
from sureprox.evaluation.scenarios import Move, Scenario
from sureprox.optimizers import FISTA, ISTA
from sureprox.solve.plan import plan

LASSO = Scenario("lasso")


def test_the_recorded_iterations() -> None:
    assert grid(5) == (0, 1, 2, 3, 4, 5)
    assert grid(125)[100:] == (100, 110, 120, 125)
    assert len(grid(1000)) == 101 + 90
    refused(lambda: grid(0), "iterations is 0")


def test_gaps_are_those_of_the_iterates(tmp_path) -> None:
    """Against a loop of its own: float32 steps, float64 objective, F* of the reference solver."""
    data = small_dataset(tmp_path)
    seen = trace(FISTA(), data, Scenario("lasso", Move.START, 2.0), 120)
    problem = data.problem.to(dtype=torch.float32)
    stepping = plan(problem, FISTA()).once()
    state = stepping.init(problem, (data.start + 2).float())
    best = sp.reference(data.problem).objective
    wanted = {k: i for i, k in enumerate(seen.grid)}
    for k in range(121):
        if k in wanted:
            gap = (data.problem.objective(state.x.double()) - best) / best
            torch.testing.assert_close(seen.gaps[wanted[k]], gap, rtol=1e-9, atol=1e-11)
        state = stepping.step(problem, state)
    assert seen.steps == 120


def test_divergence_is_recorded_as_infinity(tmp_path) -> None:
    data = small_dataset(tmp_path, 5)
    seen = trace(Exploding([0, 3]), data, LASSO, 30)
    made = columns(seen.gaps, seen.grid)
    first = made["mean"].index(math.inf)
    assert 0 < first < 10
    assert all(math.isfinite(value) for value in made["mean"][:first])
    assert all(value == math.inf for value in made["mean"][first:])
    assert made["mean"][first - 1] > 1e10  # large, and not cut off
    assert all(math.isfinite(value) for value in (*made["median"], *made["q10"]))
    assert made["q90"][-1] == math.inf
    assert made["nonfinite"] == ((first, 2),)
    assert torch.isfinite(seen.gaps[:, [1, 2, 4]]).all()
    assert seen.steps == 30


def test_nothing_is_computed_once_all_have_diverged(tmp_path) -> None:
    data = small_dataset(tmp_path, 2)
    seen = trace(Exploding([0, 1]), data, LASSO, 300)
    assert seen.steps < 15
    assert seen.gaps.shape == (len(grid(300)), 2)
    assert torch.isinf(seen.gaps[20:]).all()


@pytest.mark.parametrize("optimizer", [FISTA(restart=True), sp.load("go-math-l2o/lasso")], ids=["fista", "go"])
def test_chunks_change_nothing(tmp_path, optimizer) -> None:
    data = small_dataset(tmp_path, 7)
    whole, parts = (trace(optimizer, data, LASSO, 40, dtype=torch.float64, chunk=chunk) for chunk in (None, 3))
    torch.testing.assert_close(parts.gaps, whole.gaps, rtol=1e-9, atol=1e-12)


def test_a_zero_optimum_is_part_of_the_curve(tmp_path) -> None:
    """b = 0 in one instance: x* = 0 and F* = 0, and its gap is finite."""
    problem = SMALL.sample(4, torch.Generator().manual_seed(0)).to(dtype=torch.float64)
    problem.f.b[2] = 0
    data = small_dataset(tmp_path, problem=problem)
    assert float(data.best[2]) == 0
    seen = trace(FISTA(restart=True), data, LASSO, 300, dtype=torch.float64)
    assert torch.isfinite(seen.gaps).all()
    mean = data.best[[0, 1, 3]].mean()
    torch.testing.assert_close(seen.gaps[0, 2], data.problem.objective(data.start)[2] / mean)
    assert float(seen.gaps[-1].max()) < 1e-10


def test_only_steps_are_timed(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that counts its own readings: time runs only between start and stop, around the steps."""
    data = small_dataset(tmp_path, 2)
    ticks = iter(range(10_000))
    monkeypatch.setattr(experiment.time, "perf_counter", lambda: float(next(ticks)))
    assert trace(ISTA(), data, LASSO, 20).seconds == 20.0


@pytest.mark.cuda
@pytest.mark.parametrize("optimizer", ["fista", "go-math-l2o/lasso"])
def test_a_gpu_gives_the_same_curve(tmp_path, optimizer: str) -> None:
    data = small_dataset(tmp_path)
    there = datasets.solved(data.instances, tmp_path, torch.device("cuda"))
    curves = []
    for where in (data, there):
        chosen = FISTA() if optimizer == "fista" else sp.load(optimizer, where.problem.device)
        curves.append(trace(chosen, where, LASSO, 60, dtype=torch.float64).gaps)
    torch.testing.assert_close(curves[1], curves[0], rtol=1e-6, atol=1e-11)
