"""Figures from records: drawn without touching them, divergence visible, gaps in the records stated."""

import math
from pathlib import Path

import pytest

from evaluation_cases import falling, growing, made_up_curve, made_up_figure
from sureprox.evaluation.figures import FIGURES
from sureprox.evaluation.record_files import read_figure, write_figure
from sureprox.evaluation.records import FigureRecord, Missing
from sureprox.report.figures import caption, draw_figure, title
from sureprox.report.panels import escape, limits
from sureprox.report.style import BY_LABEL, OTHERS, styles

GROWING = {"l2o-pa/lasso": growing(), "*": falling(150)}


@pytest.mark.parametrize("name", ["fig1", "fig4", "fig8", "fig11"])
def test_drawing_changes_no_record(tmp_path: Path, name: str) -> None:
    path = tmp_path / f"{name}.json"
    write_figure(path, made_up_figure(name, GROWING))
    before = path.read_bytes()
    drawn = draw_figure(read_figure(path), tmp_path / "figures")
    assert [p.name for p in drawn] == [f"{name}.png", f"{name}.svg"]
    assert all(p.stat().st_size > 10_000 for p in drawn)
    assert path.read_bytes() == before


def test_the_same_record_gives_the_same_picture(tmp_path: Path) -> None:
    record = made_up_figure("fig3", GROWING)
    one, two = (draw_figure(record, tmp_path / name) for name in ("one", "two"))
    assert [p.read_bytes() for p in one] == [p.read_bytes() for p in two]


def test_a_figure_without_curves_can_be_drawn(tmp_path: Path) -> None:
    record = FigureRecord("fig2", "quick", (), (Missing("ista", "patches", "no data for patches: offline"),))
    assert all(path.exists() for path in draw_figure(record, tmp_path))
    assert "no curve could be run" in title(FIGURES["fig2"], record)


def test_divergence_is_said() -> None:
    line = next(line for line in FIGURES["fig3"].lines if line.optimizer == "l2o-pa/lasso")
    gone = escape(line, made_up_curve(line.optimizer, line.scenario.name, growing()), 1e4)
    assert gone is not None
    assert gone.k == 7  # 100 * 2^7 > 1e4
    assert gone.text == "L2O-PA +10: diverges, 4 of 4 not finite"
    back = escape(line, made_up_curve(line.optimizer, line.scenario.name, [1, 1e5, 1]), 1e4)
    assert back is not None
    assert back.text == "L2O-PA +10: above the axis until k = 1"
    assert escape(line, made_up_curve(line.optimizer, line.scenario.name, [1, 1e3]), 1e4) is None


def test_the_axis_follows_the_starts_not_the_divergence() -> None:
    low, high = limits([made_up_curve("a", "lasso", growing()), made_up_curve("b", "lasso", falling(100))])
    assert (low, high) == pytest.approx((1e-12, 1e3))
    assert limits([made_up_curve("a", "lasso", [50.0, 0.03])]) == pytest.approx((1e-2, 1e3))
    assert limits([made_up_curve("a", "lasso", [math.inf])])[1] == 10


def test_titles_say_how_much_was_run() -> None:
    record = made_up_figure("fig3", GROWING)
    text = title(FIGURES["fig3"], record)
    for part in ("Figure 3", "4 instances", "1000 iterations", "full", "2026-01-02", "float32"):
        assert part in text
    assert "4 starts" in title(FIGURES["fig14"], made_up_figure("fig14", {}))


def test_captions_say_what_cannot_be_seen() -> None:
    assert caption(made_up_figure("fig1", {})) == ""
    zero = made_up_figure("fig2", {}, zero_optimum=6)
    assert "6 instances with F* = 0 are measured against the mean F* of the others." in caption(zero)
    assert "Data: made up." in caption(zero)
    missing = (
        Missing("l2o-pa/lasso", "lasso", "no pretrained l2o-pa/lasso"),
        Missing("l2o-pa/lasso", "lasso/start+10", "no pretrained l2o-pa/lasso"),
        Missing("ista", "lasso", "no data"),
    )
    text = caption(FigureRecord("fig3", "full", (), missing))
    assert text == "Not available: no pretrained l2o-pa/lasso. Not available: ista (no data)."


def test_no_two_curves_of_a_figure_look_alike() -> None:
    for spec in FIGURES.values():
        look = styles(list(dict.fromkeys(line.label for line in spec.lines)))
        assert len({style.marker for style in look.values()}) == len(look)
        assert len({(style.colour, str(style.dashes)) for style in look.values()}) == len(look)
    assert len({style.marker for style in BY_LABEL.values()}) == len(BY_LABEL)
    assert len({style.marker for style in OTHERS}) == len(OTHERS)
