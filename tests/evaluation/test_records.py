"""Records on disk: there and back, strict JSON, the same bytes for the same record."""

import json
import math
from dataclasses import replace
from pathlib import Path

import torch
from hypothesis import given
from hypothesis import strategies as st

from evaluation_cases import made_up_curve, strict
from helpers import refused
from sureprox.evaluation import record_files as files
from sureprox.evaluation.records import FigureRecord, Missing, RecordError, TuningRecord, columns

gaps = st.one_of(st.floats(-1e-12, 1e30), st.just(math.inf))


@given(values=st.lists(st.lists(gaps, min_size=3, max_size=3), min_size=1, max_size=8))
def test_a_figure_there_and_back(tmp_path_factory, values: list[list[float]]) -> None:
    path = tmp_path_factory.mktemp("records") / "fig1.json"
    made = columns(torch.tensor(values, dtype=torch.float64), range(len(values)))
    curve = replace(made_up_curve("fista", "lasso/start-10", [1.0]), **made)
    tuning = TuningRecord("adam", "lasso", 1, 2, 3, (({"step_size": 0.1}, math.inf), ({"step_size": 0.01}, 2.5)))
    record = FigureRecord("fig1", "quick", (curve, curve), (Missing("l2o-pa/lasso", "lasso", "no weights"),), (tuning,))
    files.write_figure(path, record)
    assert files.read_figure(path) == record
    json.loads(path.read_text(), parse_constant=strict)
    assert tuning.chosen == {"step_size": 0.01}


def test_a_curve_and_a_tuning_there_and_back(tmp_path: Path) -> None:
    curve = made_up_curve("fista", "lasso", [1.5, math.inf])
    files.write_curve(tmp_path / "c.json", curve)
    assert files.read_curve(tmp_path / "c.json") == curve
    tuning = TuningRecord("adam", "lasso", 1, 2, 3, (({"step_size": 0.1}, math.inf),))
    files.write_tuning(tmp_path / "t.json", tuning)
    assert files.read_tuning(tmp_path / "t.json") == tuning


def test_numbers_are_short_and_divergence_is_a_word(tmp_path: Path) -> None:
    made = columns(torch.tensor([[1.23456789e-5], [torch.inf]], dtype=torch.float64), (0, 1))
    files.write_figure(
        tmp_path / "f.json", FigureRecord("fig1", "full", (replace(made_up_curve("a", "lasso", [1]), **made),))
    )
    text = (tmp_path / "f.json").read_text()
    assert '"mean":[1.235e-5,"inf"]' in text
    assert '"q10":[1.23e-5,"inf"]' in text
    assert made["nonfinite"] == ((1, 1),)


def test_an_equal_record_leaves_the_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "fig1.json"
    record = FigureRecord("fig1", "full", (made_up_curve("a", "lasso", [1.0, 0.5]),))
    files.write_figure(path, record)
    before = path.stat()
    files.write_figure(path, files.read_figure(path))
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_what_is_not_a_record_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "fig3.json"
    refused(lambda: files.read_figure(path), "there is no record", "reproduce fig3", error=RecordError)
    for text, words in (
        ("{", "not JSON"),
        ("[]", "is not a record"),
        ('{"format": 99}', "record format 99"),
        ('{"format": 1}', "not a record of a figure"),
        ('{"format":1,"figure":"f","mode":"m","iterations":[],"missing":[],"tuning":[],"curves":[{"x":1}]}', "'x'"),
    ):
        path.write_text(text)
        refused(lambda: files.read_figure(path), words, error=RecordError)


def test_curves_of_one_figure_share_their_iterations(tmp_path: Path) -> None:
    curves = (made_up_curve("a", "lasso", [1, 2]), made_up_curve("b", "lasso", [1, 2, 3]))
    refused(
        lambda: files.write_figure(tmp_path / "f.json", FigureRecord("fig1", "full", curves)),
        "different iterations",
        error=RecordError,
    )


def test_figures_are_read_in_their_order(tmp_path: Path) -> None:
    for name in ("fig10", "fig2", "fig1"):
        files.write_figure(tmp_path / f"{name}.json", FigureRecord(name, "full", ()))
    assert list(files.read_figures(tmp_path)) == ["fig1", "fig2", "fig10"]
