"""Machine code that is kept on disk, with a compiler that writes down what it is asked for."""

import pytest

from sureprox.base.private import private_directory
from sureprox.kernels.runtime import nvrtc


@pytest.fixture
def compiled(monkeypatch, tmp_path):
    """What was compiled: source and architecture."""
    calls = []
    monkeypatch.setenv("SUREPROX_CACHE", str(tmp_path))
    monkeypatch.setattr(nvrtc, "version", lambda: (13, 0))
    monkeypatch.setattr(nvrtc, "built", lambda source, architecture: calls.append((source, architecture)) or b"code")
    return calls


def test_it_is_compiled_once_and_then_read(compiled):
    assert not nvrtc.is_kept("a", "sm_90")
    for _ in range(3):
        assert nvrtc.machine_code("a", "sm_90") == b"code"
    assert compiled == [("a", "sm_90")]
    assert nvrtc.is_kept("a", "sm_90")


def test_source_architecture_and_compiler_tell_it_apart(compiled, monkeypatch):
    nvrtc.machine_code("a", "sm_90")
    assert not nvrtc.is_kept("b", "sm_90")
    assert not nvrtc.is_kept("a", "sm_80")
    monkeypatch.setattr(nvrtc, "version", lambda: (13, 1))
    assert not nvrtc.is_kept("a", "sm_90")
    monkeypatch.setattr(nvrtc, "version", lambda: (13, 0))
    monkeypatch.setattr(nvrtc, "OPTIONS", ("--std=c++20",))
    assert not nvrtc.is_kept("a", "sm_90")


@pytest.mark.parametrize("spoil", [lambda content: content[:-1], lambda content: b"x" + content, lambda content: b""])
def test_what_is_damaged_is_built_again(compiled, spoil):
    nvrtc.machine_code("a", "sm_90")
    (path,) = nvrtc._folder().glob("*.cubin")
    path.write_bytes(spoil(path.read_bytes()))
    assert not nvrtc.is_kept("a", "sm_90")
    assert nvrtc.machine_code("a", "sm_90") == b"code"
    assert len(compiled) == 2


def test_what_others_may_have_written_is_not_read(compiled):
    nvrtc.machine_code("a", "sm_90")
    (path,) = nvrtc._folder().glob("*.cubin")
    path.chmod(0o666)
    assert not nvrtc.is_kept("a", "sm_90")
    path.chmod(0o600)
    assert nvrtc.is_kept("a", "sm_90")
    private_directory(nvrtc._folder()).chmod(0o777)
    assert not nvrtc.is_kept("a", "sm_90")


def test_where_nothing_can_be_kept_it_serves_this_process(compiled, monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("SUREPROX_CACHE", str(tmp_path / "file"))
    assert nvrtc.machine_code("a", "sm_90") == b"code"
    assert not nvrtc.is_kept("a", "sm_90")
