"""Records of speed: round trip, ratios, the straight line, the figure, and what is refused."""

import json
from dataclasses import replace

import pytest
import torch

import sureprox as sp
from sureprox.evaluation.records import RecordError
from sureprox.evaluation.speed import FAST, Timing, measured
from sureprox.evaluation.speed_records import SpeedRecord, read_speed, write_speed
from sureprox.report.speed import bends, costs, draw_speed, markdown, table

WHERE = {"device": "a machine", "date": "2026-01-01", "versions": {"torch": "2"}}


def record(times=None, shared=False):
    """Times in milliseconds by (name, mode) and batch."""
    times = times or {
        ("ista", "plain"): {1: 1.0, 1000: 2.0},
        ("ista", "compiled"): {1: 0.5, 1000: 1.0},
        ("certified sure", "compiled"): {1: 0.5, 1000: 3.0},
    }
    timings = [
        Timing(name, mode, batch, value / 1e3, value / 1e3, 0.1)
        for (name, mode), row in times.items()
        for batch, value in row.items()
    ]
    return SpeedRecord(250, 500, shared, "best", 1e12, tuple(timings), WHERE)


def test_floor():
    assert record().floor(1000, 2) == pytest.approx(2 * 1000 * 500_000 / 1e12)
    assert record(shared=True).floor(1000, 2) == pytest.approx(2 * 500_000 / 1e12)


def test_costs_are_ratios_at_the_largest_batch():
    cost = costs(record())[2]
    assert (cost.name, cost.mode, cost.seconds) == ("certified sure", "compiled", 3e-3)
    assert cost.of_ista == pytest.approx(1.5)
    assert cost.of_fast_ista == pytest.approx(3.0)
    assert cost.of_floor == pytest.approx(3.0)


def test_costs_without_ista():
    cost = costs(record({("sure", "kernels"): {8: 1.0}}))[0]
    assert cost.of_ista is None
    assert cost.of_fast_ista is None


def test_with_one_matrix_the_floor_is_the_traffic_of_the_state(tmp_path):
    state = Timing("sure", "compiled", 1000, 2e-3, 2e-3, 0.1, state=500_000_000)
    made = record(shared=True)
    made = replace(made, timings=(*made.timings, state))
    assert costs(made)[-1].of_floor == pytest.approx(2.0)  # a gigabyte in a millisecond
    assert [cost.of_floor for cost in costs(made)[:-1]] == [None] * 3  # not counted
    assert ["state of Sure", "floor", "", "1.000"] in table(made)[1]
    assert not any("every A" in row[0] for row in table(made)[1])
    assert "of the traffic of its state" in markdown(made)
    draw_speed(made, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 10_000


def test_a_straight_line_has_no_bends_and_a_bent_one_has():
    line = {b: 0.2 + b / 100 for b in (1, 16, 64, 256, 1024, 4096)}
    assert bends(record({("sure", "compiled"): line})) == []
    (said,) = bends(record({("sure", "compiled"): line | {1024: 1.6 * line[1024]}}))
    assert said.startswith("Sure (compiled), batch 1,024: +")
    flat = dict.fromkeys(line, 0.2)  # never busy: nothing to say
    assert bends(record({("sure", "compiled"): flat})) == []


def test_round_trip(tmp_path):
    write_speed(tmp_path / "speed.json", record())
    assert read_speed(tmp_path / "speed.json") == record()


@pytest.mark.parametrize("spoil", [
    lambda c: c.pop("setting"), lambda c: c.update(timings=[]), lambda c: c["timings"][0].update(best=0),
    lambda c: c["timings"][0].update(extra=1), lambda c: c.update(copy_bytes_per_second="fast"),
])  # fmt: skip
def test_a_spoilt_record_is_refused(tmp_path, spoil):
    path = tmp_path / "speed.json"
    write_speed(path, record())
    content = json.loads(path.read_text())
    spoil(content)
    path.write_text(json.dumps(content))
    with pytest.raises(RecordError, match="is not a record of speed"):
        read_speed(path)


def test_table_and_text():
    headings, rows = table(record())
    assert headings == ["optimizer", "mode", "1", "1,000"]
    assert rows[2] == ["certified Sure", "compiled", "0.500", "3.000"]
    text = markdown(record())
    assert "| certified Sure | compiled | 1.50 | 3.00 | 3.00 |" in text
    assert "Off the straight line by more than 20 %: nothing." in text


def test_figure(tmp_path):
    draw_speed(record(), tmp_path / "speed.png")
    assert (tmp_path / "speed.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("shared", [False, True])
def test_measured_here(shared):
    told = []
    threads = torch.get_num_threads()
    try:
        found = measured(
            torch.device("cpu"), [1, 2], ["ista", "sure-light"], told.append, shared=shared, steps=1, rounds=1
        )
    finally:
        torch.set_num_threads(threads)
    made = SpeedRecord(**found, where={})
    assert list(made.timings) == told
    assert {(t.name, t.mode, t.batch) for t in told} == {
        (name, mode, batch)
        for name, mode in (("ista", "plain"), ("ista", "kernels"), ("sure-light", "kernels"))
        for batch in (1, 2)
    }
    assert (made.m, made.n) == ((64, 128) if shared else (250, 500))
    vectors = {t.batch: t.state / (4 * made.n * t.batch) for t in made.timings if t.name == "ista"}
    assert all(1 <= count < 3 for count in vectors.values())  # x, and a few numbers
    assert all(t.best > 0 for t in told)


def test_every_optimizer_that_is_timed_can_be_made():
    assert all(isinstance(make(torch.device("cpu")), sp.optimizers.Optimizer) for make in FAST.values())
