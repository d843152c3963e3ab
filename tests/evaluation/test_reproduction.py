"""From figures to records: nothing is computed twice, an interruption costs one curve, what is missing is said."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from evaluation_cases import CPU
from helpers import refused
from sureprox.evaluation import reproduction as module
from sureprox.evaluation.figures import FIGURES, FigureSpec, Line, Panel
from sureprox.evaluation.records import FigureRecord
from sureprox.evaluation.reproduction import Reproduction, Request, Step
from sureprox.evaluation.scenarios import Scenario
from sureprox.optimizers import AdaLISTA, GoMathL2O, save

TINY = Request("quick", instances=2, iterations=4)
NAMES = ("ista", "fista", "fista-restart", "adam")


def spec(*optimizers: str, source: str = "logistic") -> FigureSpec:
    lines = tuple(Line(name, Scenario(source), name) for name in optimizers)
    return FigureSpec("fig1", "a test", (Panel("", lines),))


def timeless(record: FigureRecord) -> FigureRecord:
    return replace(record, curves=tuple(replace(curve, seconds=0.0) for curve in record.curves))


def run(
    tmp_path: Path, figure: FigureSpec, listener: Callable[[Step], None] = lambda step: None, **options
) -> FigureRecord:
    work = Reproduction(options.pop("request", TINY), tmp_path / "work", CPU, listener=listener, **options)
    return work.figure(figure, tmp_path / "fig1.json")


def test_two_runs_agree(tmp_path: Path) -> None:
    records = [run(tmp_path / name, spec(*NAMES)) for name in ("one", "two")]
    assert timeless(records[0]) == timeless(records[1])
    assert [curve.optimizer for curve in records[0].curves] == list(NAMES)
    other = run(tmp_path / "three", spec(*NAMES), request=replace(TINY, seed=1))
    assert other.curves[0].mean != records[0].curves[0].mean


def test_a_second_run_computes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(tmp_path, spec(*NAMES))
    before = (tmp_path / "fig1.json").read_bytes()
    monkeypatch.setattr(module, "trace", lambda *_, **__: pytest.fail("computed again"))
    monkeypatch.setattr(module, "solved", lambda *_: pytest.fail("solved again"))
    heard: list[str] = []
    run(tmp_path, spec(*NAMES), lambda step: heard.append(step.how))
    assert heard == ["kept"] * 4
    assert (tmp_path / "fig1.json").read_bytes() == before


def test_a_curve_of_two_figures_is_computed_once(tmp_path: Path) -> None:
    heard: list[tuple[str, str]] = []
    work = Reproduction(
        TINY, tmp_path / "work", CPU, listener=lambda step: heard.append((step.line.optimizer, step.how))
    )
    work.figure(spec("ista", "fista"), tmp_path / "a.json")
    work.figure(spec("fista", "fista-restart"), tmp_path / "b.json")
    assert heard == [("ista", "computed"), ("fista", "computed"), ("fista", "kept"), ("fista-restart", "computed")]


@pytest.mark.parametrize("after", [1, 3])
def test_an_interrupted_run_goes_on(tmp_path: Path, after: int) -> None:
    whole = run(tmp_path / "whole", spec(*NAMES))
    heard: list[str] = []

    def interrupt(step: Step) -> None:
        heard.append(step.how)
        if len(heard) == after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "cut", spec(*NAMES), interrupt)
    assert not (tmp_path / "cut" / "fig1.json").exists()
    heard.clear()
    resumed = run(tmp_path / "cut", spec(*NAMES), lambda step: heard.append(step.how))
    assert heard == ["kept"] * after + ["computed"] * (4 - after)
    assert timeless(resumed) == timeless(whole)


@pytest.mark.parametrize("change", [{"instances": 3}, {"iterations": 5}, {"seed": 1}, {"dtype": "float64"}])
def test_another_request_is_computed_anew(tmp_path: Path, change: dict) -> None:
    run(tmp_path, spec("ista"))
    heard: list[str] = []
    run(tmp_path, spec("ista"), lambda step: heard.append(step.how), request=replace(TINY, **change))
    assert heard == ["computed"]


def test_other_weights_are_computed_anew(tmp_path: Path) -> None:
    heard: list[str] = []
    seen = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        save(GoMathL2O(hidden=4, activation="softplus"), tmp_path / "weights" / "go-math-l2o" / "logistic")
        record = run(
            tmp_path,
            spec("go-math-l2o/logistic"),
            lambda step: heard.append(step.how),
            weights=tmp_path / "weights",
        )
        seen.append(record.curves[0])
    assert heard == ["computed", "computed"]
    assert seen[0].weights != seen[1].weights
    assert len(seen[0].weights or "") == 64


def test_what_is_missing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def no_data(source: str, count: int, seed: int, dictionary: str) -> None:
        calls.append(source)
        raise OSError("no network")

    monkeypatch.setattr(module, "draw", no_data)
    record = run(tmp_path, spec("ista", "fista", "l2o-pa/no-such-model", source="spambase"))
    assert record.curves == ()
    assert [entry.reason for entry in record.missing] == [
        "no data for spambase: no network",
        "no data for spambase: no network",
        "no pretrained l2o-pa/no-such-model",
    ]
    assert calls == ["spambase"]


def test_ada_lista_is_not_run_on_other_sizes(tmp_path: Path) -> None:
    save(AdaLISTA(m=7), tmp_path / "weights" / "ada-lista" / "lasso")
    record = run(tmp_path, spec("ada-lista/lasso", source="lasso"), weights=tmp_path / "weights")
    (entry,) = record.missing
    assert entry.reason == "ada-lista/lasso is trained for 7 rows, these problems have 250 rows"


def test_step_sizes_come_from_a_recorded_grid(tmp_path: Path) -> None:
    record = run(tmp_path, spec("adam", "adam-hd", "ista"))
    assert [entry.optimizer for entry in record.tuning] == ["adam", "adam-hd"]
    for entry in record.tuning:
        assert entry.chosen == min(entry.grid, key=lambda row: row[1])[0]
        assert entry.seed != TINY.seed
        curve = record.find(entry.optimizer, "logistic")
        assert curve is not None
        assert curve.settings == entry.chosen


def test_records_say_how_they_were_made(tmp_path: Path) -> None:
    (curve,) = run(tmp_path, spec("ista")).curves
    assert (curve.instances, curve.iterations, curve.steps) == (2, (0, 1, 2, 3, 4), 4)
    assert curve.dtype == "float32"
    assert curve.precision <= 1e-12
    assert curve.seconds > 0
    assert {"sureprox", "torch", "numpy"} == set(curve.versions)
    assert curve.mean[0] > curve.mean[-1] > 0


def test_requests_are_checked() -> None:
    refused(lambda: Request("quick", 0, 1), "instances is 0")
    refused(lambda: Request("quick", 1, 0), "iterations 0")


def test_every_figure_names_known_optimizers(tmp_path: Path) -> None:
    """All lines of all figures resolve to an optimizer, or to a pretrained model that is not there."""
    work = Reproduction(TINY, tmp_path, CPU)
    for figure in FIGURES.values():
        for line in figure.lines:
            if line.optimizer in ("adam", "adam-hd"):
                continue
            with suppress(module.UnavailableError):
                assert work._contestant(line.optimizer, line.scenario.family).name == line.optimizer
