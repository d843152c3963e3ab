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


def test_kinds_without_their_data_are_skipped_and_named(command, tmp_path, monkeypatch):
    from sureprox.evaluation import battery

    real = battery.draw

    def offline(kind, *options):
        if kind.name == "lasso-64x128":
            return real(kind, *options)
        raise sp.DataError(f"{kind.name} is not here, and there is no network")

    monkeypatch.setattr(battery, "draw", offline)
    options = ("--quick", "--batch", "2", "--models", "default", "--device", "cpu", "--out", "out")
    outcome = command("bench", "battery", "--kinds", "lasso-64x128,lasso-noise", *options)
    assert (outcome.code, outcome.err) == (0, "")
    assert "not available: lasso-noise: lasso-noise is not here, and there is no network" in outcome.out
    found = json.loads((tmp_path / "out" / "battery.json").read_text())
    assert {entry["kind"] for entry in found} == {"lasso-64x128"}
    outcome = command("bench", "battery", "--kinds", "lasso-noise", *options)
    assert (outcome.code, outcome.err) == (2, "sureprox: no kind could be measured; the reasons are above\n")


def test_what_is_wrong_is_one_line(refused):
    assert "no kind 'laso'" in refused("bench", "battery", "--kinds", "laso", "--device", "cpu").replace("\n", "")
    assert "there is no record" in refused("bench", "battery", "--figures-only")


def test_speed_writes_a_record_a_table_and_a_figure(command, tmp_path):
    options = ("--batches", "2,1", "--names", "ista,sure-light", "--steps", "1", "--rounds", "1", "--device", "cpu")
    outcome = command("bench", "speed", *options, "--out", "out")
    assert (outcome.code, outcome.err) == (0, "")
    assert "batch 2, Sure light (kernels)" in outcome.out
    found = json.loads((tmp_path / "out" / "speed.json").read_text())
    assert [entry["batch"] for entry in found["timings"]] == [1, 1, 1, 2, 2, 2]
    assert {"device", "date", "versions"} <= set(found)
    assert "| Sure light | kernels |" in (tmp_path / "out" / "speed.md").read_text()
    assert (tmp_path / "out" / "speed.png").exists()
    again = command("bench", "speed", "--figures-only", "--out", "out")
    assert (again.code, again.err) == (0, "")
    assert json.loads((tmp_path / "out" / "speed.json").read_text()) == found


def test_what_is_wrong_with_speed_is_one_line(refused):
    for sizes in ("", "0", "1,x"):
        assert "--batches is" in refused("bench", "speed", "--batches", sizes, "--device", "cpu")
    assert "--names has 'adam'" in refused("bench", "speed", "--names", "adam", "--device", "cpu").replace("\n", " ")
    assert "there is no record" in refused("bench", "speed", "--figures-only")
