"""`sureprox reproduce`: one figure end to end at a tiny size, what it refuses, how it goes on."""

import json
from pathlib import Path

import pytest
import torch

from evaluation_cases import falling, growing, made_up_figure, strict
from sureprox.evaluation import FIGURES
from sureprox.evaluation.record_files import write_figure
from sureprox.evaluation.reproduction import Reproduction

TINY = ("--quick", "--instances", "2", "--iterations", "4", "--device", "cpu")


@pytest.fixture(autouse=True)
def _no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


def test_a_figure_end_to_end(command, tmp_path: Path) -> None:
    seen = command("reproduce", "fig5", *TINY)
    assert (seen.code, seen.err) == (0, "")
    assert "fig5, quick: 2 instances and 4 iterations instead of the 1,024 and 1,000 of the paper" in seen.out
    out = tmp_path / "out" / "reproduction" / "quick"
    record = json.loads((out / "records" / "fig5.json").read_text(), parse_constant=strict)
    assert record["mode"] == "quick"
    assert record["iterations"] == [0, 1, 2, 3, 4]
    assert {"go-math-l2o/lasso", "fista-restart"} <= {curve["optimizer"] for curve in record["curves"]}
    shown = {entry["optimizer"] for entry in (*record["curves"], *record["missing"])}
    assert shown == {line.optimizer for line in FIGURES["fig5"].lines}
    assert (out / "fig5.png").stat().st_size > 10_000
    assert (out / "fig5.svg").read_text().startswith("<?xml")
    assert "| (e1) | LHNoR outperforms" in (out / "claims.md").read_text()
    for entry in record["missing"]:
        assert f"not available: {entry['reason']}" in seen.out


def test_a_second_run_changes_no_file(command, tmp_path: Path) -> None:
    def files() -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in sorted(tmp_path.rglob("*")) if path.is_file()}

    command("reproduce", "fig5", *TINY)
    before = files()
    assert len(before) > 5
    assert command("reproduce", "fig5", *TINY).code == 0
    assert files() == before


def test_figures_from_records_elsewhere(command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Reproduction, "__init__", lambda *_, **__: pytest.fail("something was computed"))
    made = made_up_figure("fig3", {"l2o-pa/lasso": growing(), "*": falling(60)})
    write_figure(tmp_path / "kept" / "fig3.json", made)
    before = (tmp_path / "kept" / "fig3.json").read_bytes()
    seen = command("reproduce", "fig3", "--figures-only", "--records", "kept", "--out", "drawn")
    assert seen.code == 0
    assert sorted(path.name for path in (tmp_path / "drawn").iterdir()) == ["claims.md", "fig3.png", "fig3.svg"]
    assert (tmp_path / "kept" / "fig3.json").read_bytes() == before
    assert "L2O-PA 0 of 8" in " ".join(seen.out.split())


def test_records_only_draws_nothing(command, tmp_path: Path) -> None:
    assert command("reproduce", "fig5", *TINY, "--records-only", "--out", "here").code == 0
    assert (tmp_path / "here" / "records" / "fig5.json").exists()
    assert not list(tmp_path.rglob("*.png"))


def test_ctrl_c_is_not_a_crash_and_the_command_goes_on(command, tmp_path: Path, monkeypatch) -> None:
    complete = Reproduction.curve
    calls = []

    def interrupted(self, line):
        calls.append(line)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return complete(self, line)

    with monkeypatch.context() as patch:
        patch.setattr(Reproduction, "curve", interrupted)
        seen = command("reproduce", "fig10", *TINY)
    assert seen.code == 130
    assert "interrupted" in seen.out
    assert "the same command goes on" in seen.out
    assert len(list(tmp_path.rglob("curves/*.json"))) == 1
    assert command("reproduce", "fig10", *TINY).code == 0
    assert (tmp_path / "out" / "reproduction" / "quick" / "fig10.png").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("fig18", "--quick"), "no figure 'fig18'"),
        (("fig1",), "add --quick"),
        (("fig1", "--quick", "--full"), "choose one"),
        (("fig1", "--quick", "--records-only", "--figures-only"), "choose one"),
        (("fig1", "--quick", "--device", "tpu"), "device is 'tpu'"),
        (("fig1", "--quick", "--device", "cuda"), "no GPU"),
        (("fig1", "--quick", "--instances", "0"), "--instances"),
        (("fig2", "--quick", "--dictionary", "theirs"), "dictionary is 'theirs'"),
        (("fig1", "--quick", "--also", "no/model"), "no pretrained no/model"),
        (("fig1", "--figures-only", "--also", "sure/lasso"), "leave --also out"),
        (("fig1", "--figures-only"), "there is no record"),
        ((), "FIGURE"),
    ],
)
def test_bad_input_is_one_line(refused, arguments: tuple[str, ...], words: str) -> None:
    assert words in refused("reproduce", *arguments)


@pytest.mark.filterwarnings("default")
def test_on_a_cluster_the_records_are_the_same(command, tmp_path: Path, workers) -> None:
    def curves(out: str) -> list[dict]:
        found = json.loads((tmp_path / out / "records" / "fig5.json").read_text())["curves"]
        return [{key: value for key, value in curve.items() if key not in ("seconds", "date")} for curve in found]

    address = workers.scheduler.address
    seen = command("reproduce", "fig5", *TINY, "--records-only", "--out", "on", "--dask", address)
    assert (seen.code, seen.err) == (0, "")
    assert f"curves computed on {address}" in seen.out
    command("reproduce", "fig5", *TINY, "--records-only", "--out", "here")
    assert curves("on") == curves("here")
    assert len(curves("on")) > 2


def test_a_cluster_is_for_computing(refused) -> None:
    line = refused("reproduce", "fig5", *TINY, "--figures-only", "--dask", "local")
    assert "--dask and --figures-only are given" in line


@pytest.mark.parametrize("wanted", [("reproduce", "fig1", "--quick"), ("bench", "battery", "--quick")])
def test_weights_that_are_not_there_are_refused(refused, tmp_path, wanted):
    assert "--weights: nowhere does not exist; give the directory" in refused(*wanted, "--weights", "nowhere")
    (tmp_path / "file").touch()
    assert "--weights: file is not a directory" in refused(*wanted, "--weights", "file")


def test_another_model_joins_a_figure_and_stays_in_its_record(command, tmp_path: Path) -> None:
    seen = command("reproduce", "fig5", *TINY, "--also", "l2o-pa/lasso", "--also", "rnnprop/lasso", "--out", "here")
    assert (seen.code, seen.err) == (0, "")
    record = json.loads((tmp_path / "here" / "records" / "fig5.json").read_text())
    assert {"l2o-pa/lasso", "rnnprop/lasso"} <= {curve["optimizer"] for curve in record["curves"]}
    assert "l2o-pa/lasso" in (tmp_path / "here" / "fig5.svg").read_text()


def test_seeds_make_one_figure_and_one_table(command, tmp_path: Path) -> None:
    for seed, k in enumerate((50, 60, 70)):
        means = {"go-math-l2o/lasso": falling(k), "*": falling(65)}
        write_figure(tmp_path / "kept" / f"seed-{seed}" / "fig5.json", made_up_figure("fig5", means))
    seen = command("reproduce", "fig5", "--figures-only", "--records", "kept", "--out", "drawn")
    assert seen.code == 0
    assert "depends on the seed" in " ".join(seen.out.split())
    assert "3 seeds" in (tmp_path / "drawn" / "claims.md").read_text()
    assert (tmp_path / "drawn" / "fig5.png").stat().st_size > 10_000
