"""Figures whose curves were computed on a cluster are those computed here."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch

from sureprox.evaluation import FigureRecord, Reproduction, Request
from sureprox.evaluation.ahead import compute_ahead
from sureprox.evaluation.figures import FigureSpec, Line, Panel
from sureprox.evaluation.scenarios import Move, Scenario
from sureprox.optimizers import GoMathL2O, save

CPU = torch.device("cpu")
TINY = Request("quick", instances=2, iterations=4)
MOVED = Scenario("logistic", Move.START, 10.0)


@pytest.fixture
def weights(tmp_path):
    torch.manual_seed(0)
    save(GoMathL2O(hidden=4, activation="softplus"), tmp_path / "weights" / "go-math-l2o" / "logistic")
    return tmp_path / "weights"


def spec(name: str, *pairs: tuple[str, Scenario]) -> FigureSpec:
    return FigureSpec(name, name, (Panel("", tuple(Line(optimizer, where, optimizer) for optimizer, where in pairs)),))


HOME = Scenario("logistic")
FIRST = spec("fig1", ("ista", HOME), ("adam", HOME), ("go-math-l2o/logistic", HOME), ("l2o-pa/nobody", HOME))
SECOND = spec("fig2", ("ista", HOME), ("ista", MOVED), ("go-math-l2o/logistic", MOVED))


def timeless(record: FigureRecord) -> dict:
    return asdict(replace(record, curves=tuple(replace(curve, seconds=0.0, date="") for curve in record.curves)))


@pytest.mark.filterwarnings("default")
def test_same_records_with_and_without_a_cluster(tmp_path: Path, weights: Path, workers) -> None:
    how: list[str] = []
    heard: list[tuple[str, str, int, int]] = []
    on = Reproduction(TINY, tmp_path / "on", CPU, weights, lambda step: how.append(step.how))
    count = compute_ahead(
        on, [FIRST, SECOND], workers, lambda line, *n: heard.append((line.optimizer, line.scenario.name, *n))
    )
    assert count == 5  # ista at home is in both figures, and one model is not there
    assert [entry[2:] for entry in heard] == [(k, 5) for k in range(1, 6)]
    assert len(list((tmp_path / "on" / "curves").iterdir())) == 5
    assert len(list((tmp_path / "on" / "tuning").iterdir())) == 1
    for name, figure in (("fig1", FIRST), ("fig2", SECOND)):
        ours = on.figure(figure, tmp_path / "on" / f"{name}.json")
        here = Reproduction(TINY, tmp_path / "here", CPU, weights).figure(figure, tmp_path / "here" / f"{name}.json")
        assert json.dumps(timeless(ours)) == json.dumps(timeless(here))
    assert how == ["kept", "kept", "kept", "missing", "kept", "kept", "kept"]


def test_nothing_to_do_needs_no_cluster(tmp_path: Path) -> None:
    work = Reproduction(TINY, tmp_path, CPU)
    work.figure(spec("fig1", ("ista", HOME)), tmp_path / "fig1.json")
    assert compute_ahead(work, [spec("fig1", ("ista", HOME))], "tcp://nowhere:1") == 0


def test_a_killed_run_goes_on(tmp_path: Path) -> None:
    """What is on disk is not computed again; here in this process, as on workers."""
    work = Reproduction(TINY, tmp_path, CPU)
    work.figure(spec("fig1", ("ista", HOME)), tmp_path / "fig1.json")
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.json")}
    assert compute_ahead(work, [spec("fig1", ("ista", HOME), ("fista", HOME))], None) == 1
    assert {path: path.stat().st_mtime_ns for path in before} == before
