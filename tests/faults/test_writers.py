"""Files written where others write too, or have put something: nothing is followed, loosened or torn."""

import os
import secrets
import socket
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import sureprox as sp
from helpers import refused
from sureprox.base.errors import FileError
from sureprox.base.files import MOVING, locked, write_atomically, write_together
from sureprox.optimizers import read_card, save
from training_cases import bitwise, network, weights_of


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def at_once(*work: Callable[[], object]) -> None:
    """All in threads of their own; what goes wrong in one of them goes wrong here."""
    errors: list[BaseException] = []

    def run(call: Callable[[], object]) -> None:
        try:
            call()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(call,), name=str(number)) for number, call in enumerate(work)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(4 * MOVING)
        assert not thread.is_alive()
    assert errors == []


def test_a_link_under_a_name_that_can_be_guessed_is_not_followed(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("mine")
    for guess in (os.getpid(), os.getpid() + 1):
        (tmp_path / f".file.{guess}.tmp").symlink_to(victim)
    write_atomically(tmp_path / "file", b"data")
    assert victim.read_text() == "mine"
    assert (tmp_path / "file").read_bytes() == b"data"
    assert not (tmp_path / "file").is_symlink()


def test_a_link_under_the_very_name_of_the_scratch_file_is_an_error(tmp_path, monkeypatch):
    victim = tmp_path / "victim"
    victim.write_text("mine")
    monkeypatch.setattr(secrets, "token_hex", lambda size: "guessed")
    (tmp_path / ".file.guessed.tmp").symlink_to(victim)
    refused(lambda: write_atomically(tmp_path / "file", b"data"), "cannot write", "File exists", error=FileError)
    assert victim.read_text() == "mine"
    assert not (tmp_path / "file").exists()


def link(path: Path) -> None:
    path.with_name("elsewhere").write_text("kept")
    path.symlink_to("elsewhere")


def bind(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        here = os.open(path.parent, os.O_RDONLY)
        made.bind(f"/proc/self/fd/{here}/{path.name}")  # the whole name may be longer than a socket's can be
        os.close(here)


PLANTED = {
    "a symbolic link": link,
    "a directory": Path.mkdir,
    "a pipe": os.mkfifo,
    "a socket": bind,
}


@pytest.mark.parametrize("what", PLANTED)
def test_what_is_no_regular_file_is_not_replaced(tmp_path, what):
    path = tmp_path / "file"
    PLANTED[what](path)
    before = path.lstat()
    refused(lambda: write_atomically(path, b"data"), f"cannot write {path}: it is {what}; remove it", error=FileError)
    refused(lambda: write_together({tmp_path / "other": b"1", path: b"2"}), f"it is {what}", error=FileError)
    assert (path.lstat().st_ino, path.lstat().st_mode) == (before.st_ino, before.st_mode)
    assert not (tmp_path / "other").exists()
    assert what != "a symbolic link" or (tmp_path / "elsewhere").read_text() == "kept"
    assert not list(tmp_path.glob(".*"))


def test_a_device_is_not_replaced(tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_text("kept")
    device = os.lstat(os.devnull)
    monkeypatch.setattr(Path, "lstat", lambda self: device)  # not a real one: a test that fails would remove it
    refused(lambda: write_atomically(path, b"data"), "it is a device; remove it", error=FileError)
    assert path.read_text() == "kept"


@pytest.mark.parametrize("kept", [0o600, 0o640, 0o444, 0o666])
def test_the_mode_of_a_file_stays(tmp_path, kept):
    path = tmp_path / "file"
    path.write_text("old")
    path.chmod(kept)
    write_atomically(path, b"new")
    assert (path.read_bytes(), oct(mode(path))) == (b"new", oct(kept))


def test_a_secret_file_is_never_readable_by_others_on_its_way(tmp_path, monkeypatch):
    """Not even while it is empty: who has opened it then reads what is written later."""
    path, seen = tmp_path / "file", []
    path.write_text("old")
    path.chmod(0o600)

    def watched(name: str) -> None:
        call = getattr(os, name)

        def watch(*given: Any) -> None:
            seen.extend((name, oct(mode(scratch))) for scratch in tmp_path.glob(".file.*"))
            call(*given)

        monkeypatch.setattr(os, name, watch)

    for name in ("fchmod", "fsync"):
        watched(name)
    before = os.umask(0)
    try:
        write_atomically(path, b"new")
    finally:
        os.umask(before)
    assert seen == [("fchmod", oct(0o600)), ("fsync", oct(0o600))]


def test_a_new_file_has_the_mode_that_the_umask_allows(tmp_path):
    for mask, wanted in ((0o022, 0o644), (0o077, 0o600)):
        before = os.umask(mask)
        try:
            write_atomically(tmp_path / str(mask), b"new")
        finally:
            os.umask(before)
        assert oct(mode(tmp_path / str(mask))) == oct(wanted)


def test_the_directory_is_synced_after_the_move(tmp_path, monkeypatch):
    done, sync, move = [], os.fsync, Path.replace

    def watch(handle: int) -> None:
        done.append("directory" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file")
        sync(handle)

    def moved(self: Path, target: Path) -> Path:
        done.append("move")
        return move(self, target)

    monkeypatch.setattr(os, "fsync", watch)
    monkeypatch.setattr(Path, "replace", moved)
    write_together({tmp_path / "one": b"1", tmp_path / "other": b"2"})
    assert done == ["file", "file", "move", "move", "directory"]


def test_two_writers_of_one_file_do_not_tear_it(tmp_path):
    path = tmp_path / "file"

    def write(sign: bytes) -> None:
        for _ in range(40):
            write_atomically(path, sign * 300_000)
            assert set(path.read_bytes()) in ({ord("a")}, {ord("b")})

    at_once(lambda: write(b"a"), lambda: write(b"b"))
    assert [found.name for found in tmp_path.iterdir()] == ["file"]


def test_two_writers_of_a_pair_do_not_mix_it(tmp_path, monkeypatch):
    """The first one is slow between its two moves, and the second one starts then."""
    move, between = Path.replace, threading.Event()

    def slowly(self: Path, target: Path) -> Path:
        moved = move(self, target)
        if threading.current_thread().name == "0" and target.name == "one":
            between.set()
            threading.Event().wait(0.2)
        return moved

    monkeypatch.setattr(Path, "replace", slowly)

    def second() -> None:
        assert between.wait(60)
        write_together({tmp_path / "one": b"b", tmp_path / "other": b"b"})

    at_once(lambda: write_together({tmp_path / "one": b"a", tmp_path / "other": b"a"}), second)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes() == b"b"


def test_a_directory_locked_by_somebody_else_is_one_line(tmp_path, monkeypatch):
    import fcntl

    monkeypatch.setattr("sureprox.base.files.MOVING", 0.05)
    held = os.open(tmp_path, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        refused(
            lambda: write_together({tmp_path / "one": b"a", tmp_path / "other": b"a"}),
            f"cannot write to {tmp_path}: another process has locked it", error=FileError,
        )  # fmt: skip
    finally:
        os.close(held)
    assert list(tmp_path.iterdir()) == []


def test_models_saved_at_the_same_time_load(tmp_path):
    """Whoever reads meanwhile finds one of the two, with its own card."""
    made = {notes: network(seed=seed) for seed, notes in enumerate(("first", "second"))}
    path = tmp_path / "model"
    save(made["first"], path, notes="first")

    def write(notes: str) -> None:
        for _ in range(15):
            save(made[notes], path, notes=notes)

    def read() -> None:
        for _ in range(15):
            assert read_card(path).notes in made
            weights = weights_of(sp.load(path))
            assert any(bitwise(weights, weights_of(model)) for model in made.values())

    at_once(lambda: write("first"), lambda: write("second"), read)
    assert bitwise(weights_of(sp.load(path)), weights_of(made[read_card(path).notes]))


@pytest.mark.parametrize("stop", [KeyboardInterrupt(), OSError(5, "Input/output error")])
def test_a_save_stopped_between_its_two_moves_leaves_a_model_that_loads(tmp_path, monkeypatch, stop):
    path, move = tmp_path / "model", Path.replace
    save(network(seed=0), path, notes="old")

    def stopped(self: Path, target: Path) -> Path:
        if target.suffix == ".json":
            raise stop
        return move(self, target)

    monkeypatch.setattr(Path, "replace", stopped)
    with pytest.raises((KeyboardInterrupt, FileError)):
        save(network(seed=1), path, notes="new")
    monkeypatch.undo()
    assert read_card(path).notes == "new"
    assert bitwise(weights_of(sp.load(path)), weights_of(network(seed=1)))


def test_a_link_in_place_of_a_lock_is_not_followed(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".lock").symlink_to(tmp_path / "victim")
    with pytest.raises(sp.InputError, match="cannot write to"), locked(tmp_path / "run"):
        pass
    assert not (tmp_path / "victim").exists()


def test_a_file_system_without_locks_is_used_without(tmp_path, monkeypatch):
    import fcntl

    def none(handle: int, how: int) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", none)
    with locked(tmp_path):
        write_together({tmp_path / "one": b"a", tmp_path / "other": b"a"})
    assert (tmp_path / "other").exists()
