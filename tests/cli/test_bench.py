"""`sureprox bench battery`."""

import json

import sureprox as sp


def test_battery_writes_records_a_table_and_a_figure(command, tmp_path):
    sp.save(sp.optimizers.Sure(coordinate=2, instance=3), tmp_path / "weights" / "sure" / "lasso")
    options = ("--quick", "--kinds", "lasso-64x128", "--batch", "2", "--models", "sure", "--device", "cpu")
    outcome = command("bench", "battery", *options, "--weights", "weights", "--out", "out")
    assert (outcome.code, outcome.err) == (0, "")
    assert "lasso-64x128: fista-restart" in outcome.out
    assert "speed-up" in outcome.out
    found = json.loads((tmp_path / "out" / "battery.json").read_text())
    assert [entry["optimizer"] for entry in found] == ["fista-restart", "fista", "sure"]
    assert "| lasso-64x128 * | 64 x 128 | 2 | FISTA |" in (tmp_path / "out" / "battery.md").read_text()
    assert (tmp_path / "out" / "battery.png").exists()
    again = command("bench", "battery", "--figures-only", "--out", "out")
    assert (again.code, again.err) == (0, "")
    assert json.loads((tmp_path / "out" / "battery.json").read_text()) == found


def test_what_is_wrong_is_one_line(refused):
    assert "no kind 'laso'" in refused("bench", "battery", "--kinds", "laso", "--device", "cpu").replace("\n", "")
    assert "there is no record" in refused("bench", "battery", "--figures-only")
