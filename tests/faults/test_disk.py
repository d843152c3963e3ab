"""A full disk or a place that cannot be written: one line that names the file, and what was there before is intact."""

import errno
import os
import resource
import stat
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import sureprox as sp
from evaluation_cases import falling, made_up_figure
from helpers import refused
from report_cases import made_up_kind
from sureprox.base.errors import FileError
from sureprox.base.files import remove_scratch, write_atomically, write_together
from sureprox.evaluation.battery_records import write_records
from sureprox.evaluation.record_files import write_figure
from sureprox.optimizers import save
from sureprox.training import read_log, train
from training_cases import LASSO, bitwise, network, small_config, timeless, weights_of

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@contextmanager
def no_file_larger_than(size: int):
    """The kernel itself refuses to write more; Python ignores the signal that comes with it."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def files(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}


def full_after(monkeypatch, calls: int) -> None:
    """The disk is full from the call number `calls` of fsync of a file on."""
    seen, sync = [], os.fsync

    def full(number: int) -> None:
        if stat.S_ISDIR(os.fstat(number).st_mode):
            return sync(number)
        seen.append(number)
        if len(seen) > calls:
            raise FULL
        sync(number)

    monkeypatch.setattr(os, "fsync", full)


def figure(directory: Path, level: float) -> None:
    write_figure(directory / "fig1.json", made_up_figure("fig1", {"*": falling(level, 40)}))


def battery(directory: Path, level: float) -> None:
    write_records(directory / "battery.json", [made_up_kind("kind", "sure", [int(level)])])


def model(directory: Path, level: float) -> None:
    save(network(seed=int(level)), directory / "model")


def plain(directory: Path, level: float) -> None:
    write_atomically(directory / "file", bytes([int(level)]) * 50_000)


WRITERS = [figure, battery, model, plain]


@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.parametrize("how", ["the kernel refuses", "no space left"])
def test_what_was_written_before_survives_a_full_disk(tmp_path, monkeypatch, write, how):
    write(tmp_path, 150)
    before = files(tmp_path)
    if how == "the kernel refuses":
        with no_file_larger_than(100):
            refused(lambda: write(tmp_path, 151), "cannot write", str(tmp_path), "too large", error=FileError)
    else:
        full_after(monkeypatch, 0)
        refused(lambda: write(tmp_path, 151), "cannot write", str(tmp_path), "No space left", error=FileError)
        monkeypatch.undo()
    assert files(tmp_path) == before
    write(tmp_path, 151)
    assert files(tmp_path) != before
    assert files(tmp_path).keys() == before.keys()


def test_weights_and_card_change_together_or_not_at_all(tmp_path, monkeypatch):
    save(network(seed=0), tmp_path / "model")
    full_after(monkeypatch, 1)  # the weights are written, the card is not
    refused(lambda: save(network(seed=1), tmp_path / "model"), "model.json", "No space left", error=FileError)
    assert bitwise(weights_of(sp.load(tmp_path / "model")), weights_of(network(seed=0)))


def test_files_written_together(tmp_path):
    one, other = tmp_path / "one", tmp_path / "deep" / "other"
    write_together({one: b"1", other: b"2"})
    assert (one.read_bytes(), other.read_bytes()) == (b"1", b"2")
    (tmp_path / "blocked").write_bytes(b"a file where a directory should be")
    refused(
        lambda: write_together({one: b"3", tmp_path / "blocked" / "x": b"4"}),
        str(tmp_path / "blocked"),
        error=FileError,
    )
    assert one.read_bytes() == b"1"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["blocked", "deep", "one"]


def test_a_file_error_is_an_os_error_with_one_line():
    error = FileError("cannot write a\nb: No space")
    assert isinstance(error, OSError)
    assert isinstance(error, sp.SureproxError)
    assert str(error) == "cannot write a b: No space"


@pytest.mark.parametrize("calls", [1, 2, 4])
def test_training_on_a_disk_that_fills_up_goes_on_when_there_is_space(tmp_path, monkeypatch, calls):
    whole = network()
    train(whole, LASSO, small_config(), tmp_path / "whole", device="cpu")
    full_after(monkeypatch, calls)
    out = tmp_path / "run"
    refused(
        lambda: train(network(), LASSO, small_config(), out, device="cpu"),
        "cannot write", "checkpoint.pt" if calls < 4 else "", "No space left", error=FileError,
    )  # fmt: skip
    monkeypatch.undo()
    assert not (out / "model.safetensors").exists()
    found = network(seed=9)
    assert train(found, LASSO, small_config(), out, device="cpu").completed
    assert bitwise(weights_of(found), weights_of(whole))
    assert timeless(read_log(out / "log.jsonl")) == timeless(read_log(tmp_path / "whole" / "log.jsonl"))
    assert files(out).keys() == files(tmp_path / "whole").keys()


def test_a_log_that_cannot_grow_stops_the_run_with_one_line(tmp_path):
    config = small_config(batches=200, checkpoint_every=1000, validate_every=1000)
    train(network(), LASSO, small_config(batches=1, epochs=1), tmp_path / "size", device="cpu")
    largest = (tmp_path / "size" / "checkpoint.pt").stat().st_size
    out = tmp_path / "run"
    with no_file_larger_than(largest + 2000):  # room for the checkpoint, not for the log
        refused(
            lambda: train(network(), LASSO, config, out, device="cpu"), "cannot write", "log.jsonl", error=FileError
        )
    found, whole = network(seed=9), network()
    train(found, LASSO, config, out, device="cpu")
    train(whole, LASSO, config, device="cpu")
    assert bitwise(weights_of(found), weights_of(whole))


def test_a_command_on_a_full_disk_keeps_the_earlier_answers(tmp_path, monkeypatch, capsys):
    from sureprox.cli import main

    rng = np.random.default_rng(0)
    np.savez(tmp_path / "p.npz", A=rng.standard_normal((6, 4)), b=rng.standard_normal(6), lam=0.3)
    (tmp_path / "solutions.npz").write_bytes(b"earlier")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["sureprox", "solve", "p.npz"])
    full_after(monkeypatch, 0)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    line = capsys.readouterr().err.splitlines()[-1]
    assert line == (
        "sureprox: cannot write solutions.npz: No space left on device; free or choose another place and try again"
    )
    assert (tmp_path / "solutions.npz").read_bytes() == b"earlier"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p.npz", "solutions.npz"]


@pytest.fixture(params=["a file in its place", "no such place", "not permitted"])
def unwritable(request, tmp_path) -> Path:
    if request.param == "a file in its place":
        (tmp_path / "file").write_text("")
        return tmp_path / "file" / "below"
    if request.param == "no such place":
        if not Path("/proc/self").is_dir():
            pytest.skip("this platform has no /proc")
        return Path("/proc/sureprox")  # where nobody, not even root, can make a directory
    if os.geteuid() == 0:
        pytest.skip("permissions do not bind root")
    directory = tmp_path / "locked"
    directory.mkdir()
    directory.chmod(0o500)
    return directory


@pytest.mark.parametrize("write", WRITERS)
def test_a_directory_that_cannot_be_written_is_one_line(unwritable, write):
    refused(lambda: write(unwritable, 150), "cannot write", str(unwritable), error=FileError)


def test_training_refuses_a_directory_that_cannot_be_written_before_any_work(unwritable):
    told = []
    refused(
        lambda: train(network(), LASSO, small_config(), unwritable, device="cpu", listeners=[told.append]),
        "cannot write to", str(unwritable), "choose another", error=sp.ConfigError,
    )  # fmt: skip
    assert told == []


@pytest.mark.parametrize("name", ["checkpoint.pt", "model.safetensors", "model.json"])
def test_what_a_killed_writer_left_is_removed(tmp_path, name):
    train(network(), LASSO, small_config(batches=1, epochs=1), tmp_path, device="cpu")
    assert (tmp_path / name).exists()
    left = tmp_path / f".{name}.123.tmp"
    left.write_bytes(b"half")
    (tmp_path / ".other.123.tmp").write_bytes(b"not ours")
    remove_scratch(tmp_path / "nothing")
    assert left.exists()
    train(network(), LASSO, small_config(batches=1, epochs=1), tmp_path, device="cpu")
    assert not left.exists()
    assert (tmp_path / ".other.123.tmp").exists()
