"""What is loaded from a disk: whole copies that nobody else can have written, for this processor."""

import contextlib
import ctypes
import os
import select
import stat
from pathlib import Path

import pytest

from sureprox.base import private
from sureprox.kernels import native_status
from sureprox.kernels.runtime import compiling, library, loading


@pytest.fixture
def copy(kept, monkeypatch, tmp_path) -> Path:
    """A kept library in a cache directory of the test; compiling would be a failure."""
    monkeypatch.setenv("SUREPROX_NATIVE", "1")
    monkeypatch.setenv("SUREPROX_CACHE", str(kept))
    (original,) = library.folder().glob("*.so")
    monkeypatch.setenv("SUREPROX_CACHE", str(tmp_path / "cache"))
    place = private.private_directory(library.folder()) / original.name
    place.write_bytes(original.read_bytes())
    place.chmod(0o600)
    monkeypatch.setattr(compiling, "compile_to", lambda *_: pytest.fail("compiled"))
    library.forget()
    yield place
    library.forget()


@pytest.fixture
def no_code(monkeypatch) -> None:
    """Opening any library is a failure."""
    monkeypatch.setattr(ctypes, "CDLL", lambda name: pytest.fail(f"opened {name}"))


def found() -> bool:
    return library.library(build=False) is not None


def test_a_copy_of_ones_own_is_loaded(copy):
    assert found()
    assert native_status() == f"loaded from {copy}"


def test_what_is_kept_can_be_written_by_its_owner_alone(kept, monkeypatch):
    monkeypatch.setenv("SUREPROX_CACHE", str(kept))
    folder = library.folder()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [stat.S_IMODE(path.stat().st_mode) for path in folder.glob("*.so")] == [0o600]


def test_a_library_of_another_user_is_never_opened(copy, no_code, monkeypatch):
    another = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: another)
    monkeypatch.setattr(library, "folder", lambda: copy.parent)
    assert not found()
    assert "belongs to another user" in native_status()
    with pytest.raises(private.NotPrivateError, match="another user"):
        private.open_private(copy)


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o1777])
def test_a_directory_that_others_may_write_to_is_not_used(copy, no_code, mode):
    copy.parent.chmod(mode)
    assert not found()
    assert f"can be written by others (mode {mode:o})" in native_status()


@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_a_file_that_others_may_write_to_is_never_opened(copy, no_code, mode):
    copy.chmod(mode)
    assert not found()
    assert copy.exists()


def test_links_are_never_followed(copy, no_code, tmp_path):
    elsewhere = copy.rename(tmp_path / "elsewhere.so")
    copy.symlink_to(elsewhere)
    assert not found()
    copy.unlink()
    elsewhere.rename(copy)
    copy.parent.rename(tmp_path / "folder")
    library.folder().symlink_to(tmp_path / "folder")
    library.forget()
    assert not found()
    assert "is a link" in native_status()


def test_a_pipe_in_the_place_of_a_library_is_not_waited_for(copy, no_code):
    copy.unlink()
    os.mkfifo(copy, 0o600)
    assert not found()


def test_a_damaged_copy_is_never_opened(copy, no_code):
    copy.write_bytes(copy.read_bytes()[:5000])
    assert not found()
    assert not copy.exists()


def test_a_library_for_another_processor_is_not_loaded(copy, no_code, monkeypatch):
    monkeypatch.setattr(library, "_processor", lambda: "model name: another one")
    assert not found()
    assert native_status().startswith("not compiled yet")


@pytest.mark.skipif(not Path("/proc/cpuinfo").exists(), reason="this system does not describe its processor in /proc")
def test_the_processor_is_known_by_its_features():
    features = [line for line in library._processor().splitlines() if line.startswith(("flags", "Features"))]
    assert len(features) == 1
    assert len(features[0].split()) > 5


@pytest.mark.parametrize("changed", ["FLAGS", "options", "program"])
def test_the_key_depends_on_the_command(changed, monkeypatch, tmp_path):
    program = tmp_path / "compiler"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o700)
    before = library._key([str(program)])
    if changed == "FLAGS":
        monkeypatch.setattr(compiling, "FLAGS", ("-O1",))
    if changed == "program":
        program.write_text("#!/bin/sh\nexit 1\n")
    assert library._key([str(program), *(["-O2"] if changed == "options" else [])]) != before


def refuse_first(monkeypatch, count: int) -> list[str]:
    """The system refuses to run code from the first `count` places that are tried; the places."""
    opened, tried = ctypes.CDLL, []

    def open_later(name: str) -> ctypes.CDLL:
        tried.append(name)
        if len(tried) <= count:
            raise OSError(f"{name}: failed to map segment from shared object")
        return opened(name)

    monkeypatch.setattr(ctypes, "CDLL", open_later)
    return tried


@pytest.mark.parametrize("refused", [1, 2])
def test_from_a_cache_that_may_not_be_run_the_library_is_taken_into_memory(copy, monkeypatch, refused):
    """Then, where that is refused too, into a temporary directory, of which nothing is left."""
    tried = refuse_first(monkeypatch, refused)
    assert found()
    assert len(tried) == refused + 1
    assert not any(Path(name).is_file() for name in tried if name.endswith("native.so"))
    assert hasattr(library.library(build=False), "gradient_float")


def test_no_descriptor_stays_open_for_what_was_refused(copy, monkeypatch):
    def descriptors() -> int:
        """Of libraries; others come and go where a cluster of other tests lives in this process."""
        opened = []
        for number in os.listdir("/proc/self/fd"):
            with contextlib.suppress(OSError):
                opened.append(os.readlink(f"/proc/self/fd/{number}"))
        return sum(str(copy.parent) in name or "memfd:sureprox" in name for name in opened)

    if not Path("/proc/self/fd").exists():
        pytest.skip("this system has no names for open files")
    before = descriptors()
    refuse_first(monkeypatch, 3)
    assert not found()
    with pytest.raises(loading.DamagedError):
        loading.from_file(copy, lambda content: False)
    assert descriptors() == before


def test_where_nothing_can_be_kept_the_library_serves_this_process(copy, monkeypatch, tmp_path):
    whole = copy.read_bytes()
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SUREPROX_CACHE", str(tmp_path / "file"))
    monkeypatch.setattr(compiling, "compile_to", lambda target, compiler: target.write_bytes(whole))
    assert library.library(build=True) is not None
    assert native_status().startswith("compiled by")
    assert "for this process; nothing is kept" in native_status()


def test_without_a_home_kernels_are_kept_in_a_private_temporary_directory(copy, monkeypatch, tmp_path):
    pwd, whole = pytest.importorskip("pwd"), copy.read_bytes()

    def nobody(number: int) -> None:
        raise KeyError(f"getpwuid(): uid not found: {number}")

    for name in ("HOME", "SUREPROX_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", nobody)
    monkeypatch.setattr(private.tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(compiling, "compile_to", lambda target, compiler: target.write_bytes(whole))
    private.temporary_directory.cache_clear()
    try:
        assert library.library(build=True) is not None
        (place,) = tmp_path.glob(f"sureprox-{private.user()}")
        assert stat.S_IMODE(place.stat().st_mode) == 0o700
        place.chmod(0o777)
        private.temporary_directory.cache_clear()
        assert private.temporary_directory() != place
    finally:
        private.temporary_directory.cache_clear()


def test_a_compiler_that_hangs_is_ended_with_its_children(monkeypatch, tmp_path):
    """A child of it that has begun has the pipe open, which ends when no process has."""
    hanging, pipe = tmp_path / "hanging", tmp_path / "pipe"
    hanging.write_text(f"#!/bin/sh\n(echo begun; exec sleep 600) > {pipe} &\nwait\n")
    hanging.chmod(0o700)
    os.mkfifo(pipe)
    said = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        for patience in (0.3, 3.0, 30.0):  # the more, the busier the machine is
            monkeypatch.setattr(compiling, "PATIENCE", patience)
            with pytest.raises(compiling.CompilerError, match=rf"took more than {patience:g} seconds"):
                compiling.compile_to(tmp_path / "native.so", [str(hanging)])
            if begun := select.select([said], [], [], 0)[0] and os.read(said, 100):
                break
        assert begun == b"begun\n"
        assert select.select([said], [], [], 60)[0]
        assert os.read(said, 100) == b""
    finally:
        os.close(said)


@pytest.mark.parametrize(
    ("named", "words"),
    [("sh -O2 '-DNAME=a b'", ["-O2", "-DNAME=a b"]), ("sh", []), ("  sh   -g", ["-g"])],
)
def test_CXX_may_hold_options(monkeypatch, named, words):
    monkeypatch.setenv("CXX", named)
    program, *options = compiling.compiler()
    assert Path(program).name == "sh"
    assert options == words
    assert compiling.command([program, *options])[1 : len(words) + 1] == words


def test_CXX_may_be_a_path_with_a_space(monkeypatch, tmp_path):
    program = tmp_path / "my compiler"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o700)
    monkeypatch.setenv("CXX", str(program))
    assert compiling.compiler() == [str(program)]


@pytest.mark.parametrize(("named", "reason"), [("g++ 'open", "cannot be read"), (" ", "no C++ compiler")])
def test_a_CXX_that_means_nothing_is_told(monkeypatch, tmp_path, named, reason):
    monkeypatch.setenv("SUREPROX_NATIVE", "1")
    monkeypatch.setenv("SUREPROX_CACHE", str(tmp_path))
    monkeypatch.setenv("CXX", named)
    library.forget()
    assert library.library(build=True) is None
    assert reason in native_status()
    library.forget()
