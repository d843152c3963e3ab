"""Files that would run code, fill the memory or write elsewhere, if one let them."""

import io
import json
import pickle
import struct
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

import sureprox as sp
from helpers import refused
from sureprox.base.errors import LONGEST, SureproxError, one_line
from sureprox.base.files import parse_json
from sureprox.evaluation.datasets import _kept
from sureprox.evaluation.record_files import read_curve, read_tuning
from sureprox.optimizers import from_released, save, weights
from sureprox.optimizers.kinds import MOST_WEIGHTS, build
from sureprox.sources.problem_files import read_problem
from sureprox.training import TrainingConfig, read_log, read_recipe, train
from sureprox.training.config import card_family
from sureprox.training.curves import draw
from training_cases import LASSO, network, small_config


class Trap:
    """Unpickled, it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def npy_of(trap: Trap) -> bytes:
    out = io.BytesIO()
    np.save(out, np.array([trap], dtype=object), allow_pickle=True)
    return out.getvalue()


def zip_of(**members: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return out.getvalue()


def torch_file(content: object) -> bytes:
    out = io.BytesIO()
    torch.save(content, out)
    return out.getvalue()


def resume(path: Path) -> None:
    train(network(), LASSO, small_config(), path.parent, device="cpu")


READERS = {
    "p.npz": lambda path: read_problem([path]),
    "p.mat": lambda path: read_problem([path]),
    "p.csv": lambda path: read_problem([path], lam=0.1),
    "A.npy": lambda path: read_problem([path, path], lam=0.1),
    "m.safetensors": sp.load,
    "m.pth": from_released,
    "checkpoint.pt": resume,
    "config.toml": read_recipe,
    "curve.json": read_curve,
    "log.jsonl": read_log,
}
DISGUISES = {
    "pickle": pickle.dumps,
    "old pickle": lambda trap: pickle.dumps(trap, protocol=0),
    "object array": npy_of,
    "npz of a pickle": lambda trap: zip_of(**{"A.npy": pickle.dumps(trap), "b.npy": b""}),
    "npz of objects": lambda trap: zip_of(**{"A.npy": npy_of(trap), "b.npy": npy_of(trap)}),
    "torch file": lambda trap: torch_file({"weights": trap}),
    "old torch file": lambda trap: pickle.dumps(0x1950A86A20F9469CFC6C) + pickle.dumps(1001) + pickle.dumps(trap),
}


@pytest.mark.parametrize("disguise", DISGUISES)
@pytest.mark.parametrize("name", READERS)
def test_no_file_runs_code(tmp_path, name, disguise):
    trap = tmp_path / "sprung"
    data = DISGUISES[disguise](Trap(trap))
    path = tmp_path / "here" / name
    path.parent.mkdir()
    path.write_bytes(data)
    if name == "m.safetensors":
        save(network(), tmp_path / "whole")
        card = json.loads((tmp_path / "whole.json").read_text()) | {"sha256": ""}
        path.with_suffix(".json").write_text(json.dumps(card))
    with pytest.raises(SureproxError) as caught:
        READERS[name](path)
    assert str(caught.value).isprintable()
    assert not trap.exists()


def test_the_trap_works(tmp_path):
    pickle.loads(pickle.dumps(Trap(tmp_path / "sprung")))
    assert (tmp_path / "sprung").exists()


def test_kept_optima_do_not_run_code_either(tmp_path):
    trap = tmp_path / "sprung"
    (tmp_path / "o.npz").write_bytes(zip_of(**{"best.npy": npy_of(Trap(trap)), "gap.npy": npy_of(Trap(trap))}))
    assert _kept(tmp_path / "o.npz", 1) is None
    assert not trap.exists()


# --- paths ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["../secret", "go-math-l2o/../../secret", "./../secret", "..", "", "/", "a\0b", "x" * 5000]
)
def test_a_model_name_never_leaves_the_directory_of_models(tmp_path, monkeypatch, name):
    """A path is looked up where the user is; a name among the pretrained ones only."""
    shelf = tmp_path / "package" / "pretrained"
    save(network(), shelf / "go-math-l2o" / "lasso")
    save(network(), tmp_path / "package" / "secret")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    monkeypatch.setattr(weights, "PRETRAINED", shelf)
    assert sp.load("go-math-l2o/lasso")
    refused(lambda: sp.load(name), "no model", error=sp.WeightsError)
    refused(lambda: sp.solve(sp.lasso([[1.0]], [1.0], 0.1), name), "no model", error=sp.WeightsError)


def test_archives_are_not_unpacked(tmp_path):
    """Members are read by name, wherever these point."""
    A, b = io.BytesIO(), io.BytesIO()
    np.save(A, np.eye(3))
    np.save(b, np.ones(3))
    members = {"A.npy": A.getvalue(), "b.npy": b.getvalue(), "../outside.npy": A.getvalue(), "/tmp/x.npy": b.getvalue()}
    path = tmp_path / "deep" / "p.npz"
    path.parent.mkdir()
    path.write_bytes(zip_of(**members))
    read_problem([path], lam=0.1)
    assert [p.name for p in tmp_path.rglob("*")] == ["deep", "p.npz"]
    for name in ("../A", "/etc/passwd", "..\\A"):
        path.write_bytes(zip_of(**{f"{name}.npy": A.getvalue()}))
        refused(lambda: read_problem([path], lam=0.1), "has no 'A'")


@pytest.mark.parametrize("name", ["..toml", "...toml", "....toml", "plain.toml"])
def test_a_config_cannot_choose_where_a_run_goes(tmp_path, monkeypatch, name):
    """runs/OPTIMIZER/NAME, whatever the file is called."""
    from typer.testing import CliRunner

    from sureprox.cli import train as command
    from sureprox.cli.app import app

    monkeypatch.chdir(tmp_path)
    Path(name).write_text('preset = "tiny"\n')
    seen = []
    monkeypatch.setattr(command, "run", lambda recipe, out, **options: seen.append(out))
    assert CliRunner().invoke(app, ["train", "--config", name]).exit_code == 0
    assert seen[0].resolve().parent == tmp_path / "runs" / "go-math-l2o"


# --- memory and time ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        ("go-math-l2o", {"hidden": 10**9}),
        ("go-math-l2o", {"hidden": 10_000}),
        ("go-math-l2o", {"layers": 10**9}),
        ("l2o-dm", {"hidden": 2000, "layers": 1000}),
        ("ada-lista", {"m": 10_000, "layers": 1}),
        ("sure", {"coordinate": 10**7}),
    ],
)
def test_an_optimizer_that_would_not_fit_is_not_built(kind, arguments):
    tracemalloc.start()
    refused(lambda: build(kind, arguments), kind, error=sp.WeightsError)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2**26


@pytest.mark.parametrize(("kind", "arguments"), [("ada-lista", {"m": 500, "layers": 20}), ("rnnprop", {"hidden": 200})])
def test_what_is_used_in_practice_is_far_from_the_limits(kind, arguments):
    built = build(kind, arguments)
    assert 0 < 10 * sum(weight.numel() for weight in built.parameters()) < MOST_WEIGHTS


def test_a_card_cannot_ask_for_huge_problems():
    refused(lambda: card_family({"name": "lasso", "m": 10**6, "n": 10**6}), "too large", error=sp.ConfigError)


def test_a_run_that_cannot_fit_is_refused_before_it_starts():
    config = TrainingConfig(batch=10**6)
    refused(lambda: train(network(), "lasso", config, device="cpu"), "batch", "memory", "GB", error=sp.ConfigError)


def test_an_archive_of_many_members_is_read_in_time(tmp_path):
    """It took the square of their number."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for number in range(40_000):
            archive.writestr(zipfile.ZipInfo(f"{number}.npy"), b"")
    (tmp_path / "p.npz").write_bytes(out.getvalue())
    refused(lambda: read_problem([tmp_path / "p.npz"]), "has no 'A'")


# --- what fuzzing found, once more by hand --------------------------------------------------------------------------

DEEP = b"[" * 100_000


def test_json_is_bounded_and_finite():
    with pytest.raises(ValueError, match="nested too deep"):
        parse_json(DEEP)
    for text in ("NaN", "[Infinity]", "-Infinity", "1e999"):
        with pytest.raises(ValueError, match="number"):
            parse_json(text)
    assert parse_json("Infinity", finite=False) == float("inf")
    with pytest.raises(ValueError, match="digits"):
        parse_json("9" * 5000)
    assert parse_json('{"a": [1, 2.5, null]}') == {"a": [1, 2.5, None]}


@pytest.mark.parametrize(
    "content", [b"x = " + DEEP, b"seed = " + b"9" * 5000, b"\xff", b"[training]\nseed = " + b"9" * 5000, b"a.a" * 9]
)
def test_configs_that_are_not_read(tmp_path, content):
    (tmp_path / "c.toml").write_bytes(content)
    refused(lambda: read_recipe(tmp_path / "c.toml"), error=sp.ConfigError)


def test_a_config_that_takes_the_square_of_its_length_is_refused(tmp_path):
    (tmp_path / "c.toml").write_text("a." * 100_000 + "a = 1")
    refused(lambda: read_recipe(tmp_path / "c.toml"), "200,005 characters", error=sp.ConfigError)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"family": True}, "its family is not an object"),
        ({"arguments": "\x1b[31m"}, "cannot be built from"),
        ({"sha256": 3}, "its sha256 is not text"),
        ({"optimizer": "(" * 100_000}, "optimizer is"),
        (DEEP, "nested too deep"),
        (b'{"format": ' + b"9" * 5000 + b"}", "not JSON"),
    ],
)
def test_cards_that_are_not_read(tmp_path, change, said):
    save(network(), tmp_path / "m")
    path = tmp_path / "m.json"
    path.write_bytes(
        change if isinstance(change, bytes) else json.dumps(json.loads(path.read_text()) | change).encode()
    )
    with pytest.raises(sp.WeightsError, match=said) as caught:
        sp.load(tmp_path / "m")
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) <= LONGEST


@pytest.mark.parametrize("content", [b"{}", b"[]", b"3", DEEP, b'{"grid": 3}', b'{"grid": [[1]]}', b"\xff"])
@pytest.mark.parametrize("read", [read_curve, read_tuning])
def test_records_that_are_not_read(tmp_path, read, content):
    (tmp_path / "r.json").write_bytes(content)
    refused(lambda: read(tmp_path / "r.json"), "r.json", "delete it", error=SureproxError)


@pytest.mark.parametrize(
    "content", [b"{\n", b"3\n", b'"event"\n', b'{"event": 3}\n', b"\xff\n", DEEP + b"\n", b"NaN\n"]
)
def test_logs_that_are_not_read(tmp_path, content):
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{"event": "note"}\n' + content)
    refused(lambda: read_log(path), "log.jsonl", "line 2", error=sp.InputError)


@pytest.mark.parametrize(
    "line", ['{"event": "batch"}', '{"event": "start", "recipe": "x"}', '{"event": "batch", "batch": "x", "loss": []}']
)
def test_logs_that_are_not_drawn(tmp_path, line):
    pytest.importorskip("matplotlib")
    batch = '{"event": "batch", "batch": 1, "loss": 1.0, "rate": 0.1, "skipped": false}'
    (tmp_path / "log.jsonl").write_text(f"{line}\n{batch}\n")
    refused(lambda: draw(tmp_path / "log.jsonl", tmp_path / "c.png"), "not a training log", error=sp.InputError)
    assert not (tmp_path / "c.png").exists()


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a\nb", "a b"),
        ("a  b", "a  b"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("\u202e\x00", "\\u202e\\x00"),
        ("é", "é"),
    ],
)
def test_messages_are_one_printable_line(text, line):
    assert one_line(text) == line
    assert str(SureproxError(text)) == line


def test_long_messages_keep_their_beginning_and_end():
    line = one_line("begin " + "x" * 10**6 + " end")
    assert len(line) <= LONGEST
    assert line.startswith("begin x")
    assert line.endswith("x end")


def test_the_length_of_a_safetensors_header_is_not_trusted(tmp_path):
    save(network(), tmp_path / "m")
    card = json.loads((tmp_path / "m.json").read_text()) | {"sha256": ""}
    (tmp_path / "m.json").write_text(json.dumps(card))
    data = (tmp_path / "m.safetensors").read_bytes()
    for length in (0, 1, len(data), 2**31, 2**40, 2**63, 2**64 - 1):
        (tmp_path / "m.safetensors").write_bytes(struct.pack("<Q", length) + data[8:])
        refused(lambda: sp.load(tmp_path / "m"), "damaged", error=sp.WeightsError)
