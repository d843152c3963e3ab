"""`sureprox train`: small runs, interruption, and every kind of bad input."""

import os
import re
import signal
import subprocess
import sys
from io import StringIO
from pathlib import Path

import matplotlib.image
import pytest
from rich.console import Console

import sureprox as sp
from sureprox.cli.train import Display, described, pairs
from sureprox.training import preset, preset_names, read_log

SMALL = ("--preset", "tiny", "--set", "batches=4", "--set", "batch=4", "--set", "validation=4", "--device", "cpu")
RUN = Path("runs/go-math-l2o/tiny")


def start(*arguments: str, cwd: Path) -> subprocess.Popen[str]:
    """As a user would start it: a process of its own, without the shape checks of this test suite."""
    environment = {name: value for name, value in os.environ.items() if name != "SUREPROX_CHECK_SHAPES"}
    command = (sys.executable, "-W", "ignore", "-m", "sureprox", "train", *arguments)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, cwd=cwd, env=environment | {"OMP_NUM_THREADS": "1"}, text=True, **pipes)


def test_small_run_says_where_the_model_is(command) -> None:
    outcome = command("train", *SMALL)
    assert (outcome.code, outcome.err) == (0, "")
    lines = outcome.out.splitlines()
    assert lines[0] == "training go-math-l2o on lasso 20 x 40, 8 batches, plain on cpu"
    assert any(re.match(r"5/8: loss \S+, validation \S+ \(best \S+\), \S+ batches/s, \d+ s left$", x) for x in lines)
    assert lines[-2] == f"model: {RUN / 'model.safetensors'}"
    assert lines[-1] == f'load it with: sureprox.load("{RUN}/model")'
    assert sp.load(RUN / "model").kind == "go-math-l2o"
    card = sp.optimizers.read_card(RUN / "model")
    assert lines[-3].startswith(f"best validation loss {card.metrics['validation_loss']:.6g}, ")
    assert (card.training["batches"], card.training["batch"]) == (4, 4)


def test_same_seed_gives_the_same_weights_and_another_seed_others(command) -> None:
    for out, seed in (("a", 3), ("b", 3), ("c", 4)):
        assert command("train", *SMALL, "--out", out, "--seed", str(seed)).code == 0
    a, b, c = (Path(out, "model.safetensors").read_bytes() for out in "abc")
    assert a == b
    assert a != c
    assert sp.optimizers.read_card("a/model").seed == 3


def test_arguments_reach_the_optimizer(command) -> None:
    options = ("--argument", "gradient_map=std", "--argument", "hidden=4", "--argument", 'q_shrink="1/L"')
    assert command("train", *SMALL, *options).code == 0
    found = sp.optimizers.read_card(RUN / "model").arguments
    assert (found["gradient_map"], found["hidden"], found["q_shrink"]) == ("std", 4, "1/L")


def test_other_optimizers_are_trained_too(command) -> None:
    small = ("--set", "steps=1", "--set", "batch=4", "--set", "validation=4", "--argument", "layers=2")
    assert command("train", "--preset", "tiny", "--optimizer", "ada-lista", "--set", "layers=2", *small).code == 0
    assert sp.load("runs/ada-lista/tiny/model").layers == 2


def test_config_file_is_an_alternative_to_a_preset(command, refused) -> None:
    Path("mine.toml").write_text('preset = "tiny"\noptimizer = "l2o-pa"\n[training]\nbatches = 2\nbatch = 4\n')
    assert command("train", "--config", "mine.toml", "--set", "epochs=1").code == 0
    card = sp.optimizers.read_card("runs/l2o-pa/mine/model")
    assert (card.training["batches"], card.training["epochs"]) == (2, 1)
    assert "--config is given with" in refused("train", "--config", "mine.toml", "--preset", "tiny")


def test_a_finished_run_is_not_repeated(command) -> None:
    command("train", *SMALL)
    before = (RUN / "model.safetensors").read_bytes()
    outcome = command("train", *SMALL, "--plot")
    assert outcome.code == 0
    assert "this run is complete" in outcome.out
    assert (RUN / "model.safetensors").read_bytes() == before
    assert matplotlib.image.imread(RUN / "curves.png").std() > 0


def test_plot_writes_a_picture(command) -> None:
    outcome = command("train", *SMALL, "--plot")
    assert f"curves: {RUN / 'curves.png'}" in outcome.out.splitlines()
    pixels = matplotlib.image.imread(RUN / "curves.png")
    assert min(pixels.shape[:2]) > 300


@pytest.mark.slow
@pytest.mark.usefixtures("interruptible")
def test_interrupted_run_goes_on_to_the_same_weights(tmp_path: Path) -> None:
    longer = (*SMALL, "--set", "batches=30")
    process = start(*longer, "--out", "stopped", cwd=tmp_path)
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("5/"):
            process.send_signal(signal.SIGINT)
            break
    out, err = process.communicate(timeout=240)
    assert process.returncode == 130, err
    *_, stopped, advice = out.splitlines()
    assert re.fullmatch(r"interrupted after \d+ of 60 batches; wrote stopped/checkpoint.pt", stopped)
    assert advice == "to go on from there, give the same command again"
    assert err == ""
    assert not (tmp_path / "stopped" / "model.safetensors").exists()

    for directory in ("stopped", "whole"):
        process = start(*longer, "--out", directory, "--tensorboard", cwd=tmp_path)
        out, err = process.communicate(timeout=300)
        assert process.returncode == 0, err
        assert ("going on after batch" in out) == (directory == "stopped")
        assert list((tmp_path / directory / "tensorboard").iterdir())
    one, other = (tmp_path / directory / "model.safetensors" for directory in ("stopped", "whole"))
    assert one.read_bytes() == other.read_bytes()
    batches = [event["batch"] for event in read_log(tmp_path / "stopped" / "log.jsonl") if event["event"] == "batch"]
    assert batches == list(range(1, 61))


def test_interrupt_before_the_first_batch_is_one_line(command, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("sureprox.cli.train.run_training", interrupt)
    outcome = command("train", *SMALL)
    assert outcome.code == 130
    assert outcome.out.splitlines() == [f"interrupted; the same command goes on from the last checkpoint in {RUN}"]


def test_notes_are_lines(command) -> None:
    outcome = command("train", *SMALL, "--backend", "graph")
    assert outcome.out.splitlines()[0] == "note: CUDA graphs need a GPU: training with plain PyTorch"


def test_a_run_given_up_is_one_line_and_its_curves_are_drawn(command) -> None:
    options = ("--optimizer", "l2o-dm", "--set", "learning_rate=1e38", "--set", "max_failures=1", "--plot")
    outcome = command("train", *SMALL, *options)
    assert outcome.code == 2
    (line,) = outcome.err.splitlines()
    assert "more than max_failures = 1" in line
    assert outcome.out.splitlines()[-1] == "curves: runs/l2o-dm/tiny/curves.png"
    assert Path("runs/l2o-dm/tiny/curves.png").exists()


@pytest.mark.parametrize("terminal", [False, True])
def test_display_shows_what_happens(terminal: bool) -> None:
    output = StringIO()
    console = Console(file=output, force_terminal=terminal, width=150, soft_wrap=True, highlight=False, markup=False)
    with Display(console, described(preset("tiny")), 40) as display:
        display({"event": "start", "batch": 20, "seconds": 2.0, "backend": "plain", "device": "cpu"})
        display({"event": "batch", "batch": 21, "seconds": 3.0, "loss": None, "skipped": True})
        display({"event": "note", "batch": 21, "seconds": 3.0, "text": "back to [better] weights"})
        display({"event": "batch", "batch": 25, "seconds": 5.0, "loss": 1.23456, "skipped": False})
        display({"event": "validation", "batch": 25, "seconds": 5.0, "loss": None, "best": 0.5})
        display.bars.refresh()
    text = output.getvalue()
    assert "going on after batch 20" in text
    assert "note: back to [better] weights" in text
    assert "loss 1.235, validation not finite (best 0.5), 1 failed" in text
    assert "25/40" in text
    assert terminal or text.splitlines()[-1].endswith("5 batches/s, 3 s left")


def test_presets_are_listed(command) -> None:
    outcome = command("train", "--list-presets")
    assert outcome.code == 0
    listed = [line.split()[0] for line in outcome.out.splitlines() if " x " in line]
    assert listed == preset_names()
    lines = command("train", "--list-presets", "--optimizer", "ada-lista").out.splitlines()
    some = {line.split()[0] for line in lines if " x " in line}
    assert {name for name in some if name.startswith("logistic")} == {"logistic-released"}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--preset", "lasso-77"), "preset is 'lasso-77'; did you mean 'lasso-7'?"),
        (("--optimizer", "go-math"), "optimizer is 'go-math'; did you mean 'go-math-l2o'?"),
        (("--set", "lerning_rate=0.1"), "unknown training key 'lerning_rate'; did you mean 'learning_rate'?"),
        (("--set", "batch"), "--set is 'batch'; write it as KEY=VALUE"),
        (("--set", "=3"), "--set is '=3'; write it as KEY=VALUE"),
        (("--set", 'batch="3'), "--set is 'batch=\"3'; its value must be a TOML string, number or boolean"),
        (("--set", "batch=[3]"), "--set is 'batch=[3]'; its value must be a TOML string, number or boolean"),
        (("--set", "batch=3.5"), "batch is 3.5; it must be of type int"),
        (("--set", "batch=many"), "batch is 'many'; it must be of type int"),
        (("--set", "batch=0"), "batch is 0; it must be at least 1"),
        (("--seed", "-1"), "seed is -1; it must be at least 0"),
        (("--seed", "x"), "Invalid value for '--seed'"),
        (("--argument", "gradient_mapp=std"), "did you mean 'gradient_map'?"),
        (("--argument", "gradient_map=stdd"), "gradient_map is 'stdd'; choose one of"),
        (("--argument", "hidden=0"), "hidden is 0"),
        (("--device", "tpu"), "device is 'tpu'; choose one of auto, cpu, cuda"),
        (("--backend", "quick"), "backend is 'quick'; choose one of"),
        (("--config", "missing.toml"), "cannot read missing.toml"),
        (("--out", "/proc/sureprox/run"), "cannot write to /proc/sureprox/run"),
        (("--no-such-option",), "--no-such-option"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(refused, options: tuple[str, ...], expected: str) -> None:
    assert expected in refused("train", *options)


def test_output_below_a_file_is_one_line(refused, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "cannot write to file/run" in refused("train", *SMALL, "--out", "file/run")


def test_config_that_is_not_toml_is_one_line(refused, tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text("optimizer = ")
    assert "bad.toml is not TOML" in refused("train", "--config", "bad.toml")


def test_a_directory_of_another_recipe_is_refused_and_kept(command, refused) -> None:
    command("train", *SMALL)
    before = {path: path.read_bytes() for path in RUN.iterdir()}
    line = refused("train", *SMALL, "--seed", "9", "--plot")
    assert "belongs to another recipe (training.seed differ)" in line
    assert {path: path.read_bytes() for path in RUN.iterdir()} == before


def test_unknown_command_is_one_line(refused) -> None:
    assert "No such command 'trian'" in refused("trian")


def test_no_command_shows_the_help(command) -> None:
    outcome = command()
    assert outcome.code == 0
    assert all(name in outcome.out for name in ("demo", "models", "train"))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("1e-3", 1e-3),
        ("true", True),
        ('"a b"', "a b"),
        ("std", "std"),
        ("1/sqrtL", "1/sqrtL"),
        ("1_000", 1000),
    ],
)
def test_values_are_toml_scalars_or_plain_words(text: str, value: object) -> None:
    assert pairs("--set", ["old=1", f" key = {text} ", "old=2"]) == {"old": 2, "key": value}
