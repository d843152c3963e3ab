"""The C++ of the kernels: compiled when first worth it, kept in the cache directory, loaded with ctypes.

Nothing here raises: where there is no compiler, or it fails, there is no library, and `native_status()` says why.
"""

import contextlib
import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import threading
import warnings
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from sureprox.base.cache import cache_directory
from sureprox.base.errors import EngineWarning, SureproxError, one_line
from sureprox.base.files import locked, write_atomically
from sureprox.base.private import private_directory, user
from sureprox.kernels.runtime import compiling, loading
from sureprox.kernels.runtime.compiling import CompilerError

_lock = threading.Lock()
_loaded: ctypes.CDLL | None = None
_said = "not asked for yet"
_tried = _looked = _told = False
_failed = False  # whether they cannot be built here
_builder: threading.Thread | None = None


def library(build: bool) -> ctypes.CDLL | None:
    """The compiled kernels; compiled now, which takes seconds, only if `build` and no copy is in the cache."""
    global _loaded, _said, _tried, _looked
    if _loaded is not None or _tried or (_looked and not build):
        return _loaded
    with _lock:
        if _loaded is None and not _tried:
            _looked, _tried = True, build
            _loaded, _said = _found(build)
    return _loaded


def build_later() -> None:
    """Build the library meanwhile, for solves to come: in a process that outlives this one, should it end before."""
    global _builder
    with _lock:
        if _builder is None and not _tried:
            _builder = threading.Thread(target=_build_apart, daemon=True)
            _builder.start()


def _build_apart() -> None:
    global _looked
    command = [sys.executable, "-c", f"from {__name__} import library; library(build=True)"]
    paths = os.pathsep.join(path for path in sys.path if path)
    apart: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    apart |= {"env": os.environ | {"PYTHONPATH": paths}, "start_new_session": os.name == "posix"}
    try:
        subprocess.Popen(command, **apart).wait(2 * compiling.PATIENCE)
    except (OSError, ValueError, subprocess.TimeoutExpired):  # no Python to start, as in a frozen program
        library(build=True)
        return
    with _lock:
        _looked = False  # the next to ask finds it


def native_status() -> str:
    """One line: where the compiled kernels came from, or why they are not used."""
    return _said


@cache
def function(name: str) -> Any:
    """A kernel of the library, which must be there."""
    return getattr(library(build=False), name)


def forget() -> None:
    """Look for the library anew at the next call."""
    global _loaded, _said, _tried, _looked, _told
    function.cache_clear()
    with _lock:
        _loaded, _said, _tried, _looked, _told = None, "not asked for yet", False, False, False


def tell_why_not() -> None:
    """Warn, once in a process, that kernels cannot be built here."""
    global _told
    with _lock:
        failed, _told = _failed and not _told, _told or _failed
    if failed:
        text = f"kernels are off, so solves on this CPU are slower: {_said}"
        warnings.warn(text, EngineWarning, stacklevel=_level_of_the_caller())


def _level_of_the_caller() -> int:
    """How far up the stack of `warnings.warn` in the caller of this the first line outside of the package is."""
    frame, level = sys._getframe(1), 1
    while (
        frame.f_back is not None
        and frame.f_globals.get("__name__", "").partition(".")[0] == __package__.partition(".")[0]
    ):
        frame, level = frame.f_back, level + 1
    return level


def folder() -> Path:
    """Where libraries are kept: one place for each user of the cache directory."""
    return cache_directory() / f"native-{user()}"


def _found(build: bool) -> tuple[ctypes.CDLL | None, str]:
    global _failed
    _failed = False
    if os.environ.get("SUREPROX_NATIVE", "1") == "0":
        return None, "switched off: SUREPROX_NATIVE is 0"
    try:
        compiler = compiling.compiler()
        key = _key(compiler)
        place, trouble = _place(build)
        for kept in sorted(place.glob(f"{key}-*.so")) if place is not None else ():
            if (made := _loaded_from(kept, key)) is not None:
                return made, f"loaded from {kept}"
        if not build:
            return None, trouble or "not compiled yet"
        return _built_once(compiler, key, place, trouble)
    except (CompilerError, OSError) as error:
        _failed = True
        return None, one_line(str(error))


def _place(make: bool) -> tuple[Path | None, str]:
    """`folder()`, or None and the reason if nothing can be kept there, or somebody else could have put files there."""
    try:
        return private_directory(folder(), make), ""
    except FileNotFoundError:
        return None, ""
    except OSError as error:
        return None, f"nothing is kept: {error}"


def _built_once(compiler: list[str], key: str, place: Path | None, trouble: str) -> tuple[ctypes.CDLL, str]:
    """`_built`, unless another process does so first: then this one waits for it."""
    if place is None:
        return _built(compiler, key, place, trouble)
    with contextlib.ExitStack() as held:
        with contextlib.suppress(SureproxError):  # it takes too long, or there are no locks: build it twice
            held.enter_context(locked(place, compiling.PATIENCE))
        for kept in sorted(place.glob(f"{key}-*.so")):
            if (made := _loaded_from(kept, key)) is not None:
                return made, f"loaded from {kept}"
        return _built(compiler, key, place, trouble)


def _built(compiler: list[str], key: str, place: Path | None, trouble: str) -> tuple[ctypes.CDLL, str]:
    """Compile, and keep the result under a name that holds its own hash, put there in one move."""
    with tempfile.TemporaryDirectory() as scratch:
        target = Path(scratch) / "native.so"
        compiling.compile_to(target, compiler)
        content = target.read_bytes()
    if place is not None:
        kept = place / _name(key, content)
        try:
            write_atomically(kept, content)
            kept.chmod(0o600)
        except OSError as error:  # it serves this process only
            trouble = f"nothing is kept: {error}"
        else:
            if (made := _loaded_from(kept, key)) is not None:
                return made, f"compiled by {compiler[0]} into {kept}"
    return loading.from_memory(content), f"compiled by {compiler[0]} for this process; {trouble}"


def _loaded_from(kept: Path, key: str) -> ctypes.CDLL | None:
    """The library, if the file is what its name says and nobody else can have written it; else it is not opened."""
    try:
        return loading.from_file(kept, lambda content: kept.name == _name(key, content))
    except loading.DamagedError:
        kept.unlink(missing_ok=True)
    except OSError:
        pass
    return None


def _name(key: str, content: bytes) -> str:
    return f"{key}-{hashlib.sha256(content).hexdigest()}.so"


@cache
def _sources() -> bytes:
    parts = sorted(Path(str(files("sureprox.kernels"))).rglob("*.[hc]*"))
    return b"".join(part.name.encode() + part.read_bytes() for part in parts if part.suffix in (".h", ".cpp"))


def _key(compiler: list[str]) -> str:
    """What the result depends on: the sources, the command, the programs that it names and the processor."""
    programs = [Path(found).resolve() for word in compiler if (found := shutil.which(word)) is not None]
    stats = [(str(program), program.stat().st_size, program.stat().st_mtime_ns) for program in programs]
    parts = repr((compiling.command(compiler), stats, platform.machine(), _processor())).encode()
    return hashlib.sha256(b"\0".join([_sources(), parts])).hexdigest()[:16]


def _processor() -> str:
    """What -march=native looks at: the model and the features of the first processor."""
    try:
        first = Path("/proc/cpuinfo").read_text().partition("\n\n")[0].splitlines()
    except OSError:
        return platform.processor()
    return "\n".join(line for line in first if line.startswith(("model", "vendor", "flags", "Features", "CPU")))
