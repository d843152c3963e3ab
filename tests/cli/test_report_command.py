"""`sureprox report`."""

from pathlib import Path

import pytest

from report_cases import write_all, write_battery


def test_report_writes_one_page(command, tmp_path: Path) -> None:
    write_all(tmp_path / "records")
    write_battery(tmp_path / "out" / "battery" / "battery.json")
    outcome = command("report")
    assert (outcome.code, outcome.err) == (0, "")
    assert "6 record files below records, out" in outcome.out
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    assert "records/battery/battery.json" in text
    assert "out/battery/battery.json" in text
    assert str(tmp_path) not in text  # addresses are those that were given


def test_directories_and_target_can_be_chosen(command, tmp_path: Path) -> None:
    write_all(tmp_path / "a")
    write_battery(tmp_path / "b" / "battery.json")
    outcome = command("report", "--records", "a/audit", "--records", "b", "--out", "page.html")
    assert (outcome.code, outcome.err) == (0, "")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "No training logs below a/audit, b." in text
    assert "wrote page.html" in outcome.out


def test_what_is_wrong_is_one_line(refused, tmp_path: Path) -> None:
    assert "none of the directories records, out, runs is here" in refused("report")
    assert "there is no directory absent" in refused("report", "--records", "absent")
    (tmp_path / "records").mkdir()
    assert "no records below records" in refused("report")
    write_battery(tmp_path / "records" / "battery.json")
    assert "it is a directory" in refused("report", "--out", "records")
    assert "there is no directory no" in refused("report", "--out", "no/page.html")


@pytest.mark.parametrize("name", ["fig1.json", "battery.json", "audit.json", "log.jsonl"])
def test_a_broken_record_leaves_the_old_page_alone(refused, tmp_path: Path, name: str) -> None:
    (tmp_path / "records").mkdir()
    (tmp_path / "records" / name).write_text('{"event": 1}\n')
    (tmp_path / "report.html").write_text("old")
    assert f"records/{name}" in refused("report")
    assert (tmp_path / "report.html").read_text() == "old"
