"""The C++ kernels in native/: compiled when first worth it, kept in the cache directory, loaded with ctypes.

Nothing here raises: where there is no compiler, or it fails, there is no library, and `native_status()` says why.
"""

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
import threading
from functools import cache
from importlib.resources import files
from pathlib import Path

from sureprox.files import write_atomically
from sureprox.problems.download import cache_directory

FLAGS = ("-std=c++17", "-O3", "-fPIC", "-shared", "-pthread")
PATIENCE = 120  # seconds a compiler may take

_lock = threading.Lock()
_loaded: ctypes.CDLL | None = None
_said = "not asked for yet"
_tried = _looked = False
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
    """Build the library in a thread of its own, for solves to come."""
    global _builder
    with _lock:
        if _builder is None and not _tried:
            _builder = threading.Thread(target=library, args=(True,), daemon=True)
            _builder.start()


def native_status() -> str:
    """One line: where the compiled kernels came from, or why they are not used."""
    return _said


def forget() -> None:
    """Look for the library anew at the next call."""
    global _loaded, _said, _tried, _looked
    with _lock:
        _loaded, _said, _tried, _looked = None, "not asked for yet", False, False


def _found(build: bool) -> tuple[ctypes.CDLL | None, str]:
    if os.environ.get("SUREPROX_NATIVE", "1") == "0":
        return None, "switched off: SUREPROX_NATIVE is 0"
    name = os.environ.get("CXX") or "c++"
    compiler = shutil.which(name)
    if compiler is None:
        return None, f"no C++ compiler: {name} is not on the PATH; install one, or name it in CXX"
    key = _key(compiler)
    folder = cache_directory() / "native"
    for kept in sorted(folder.glob(f"{key}-*.so")):
        if (made := _loaded_from(kept, key)) is not None:
            return made, f"loaded from {kept}"
    if not build:
        return None, "not compiled yet: no problem so far was large enough to be worth it"
    try:
        made, place = _built(compiler, key, folder)
    except (OSError, subprocess.SubprocessError) as error:
        return None, f"{compiler} could not compile the kernels: {_line(error)}"
    return made, f"compiled by {compiler} into {place}"


def _built(compiler: str, key: str, folder: Path) -> tuple[ctypes.CDLL, Path]:
    """Compile, and keep the result under a name that holds its own hash, put there in one move."""
    with tempfile.TemporaryDirectory() as scratch:
        target = Path(scratch) / "native.so"
        _compile(compiler, target)
        content = target.read_bytes()
        place = folder / f"{key}-{hashlib.sha256(content).hexdigest()}.so"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            write_atomically(place, content)
        except OSError:  # nowhere to keep it: it serves this process only
            return ctypes.CDLL(str(target)), target
        return ctypes.CDLL(str(place)), place


def _compile(compiler: str, target: Path) -> None:
    source = files("sureprox.backends").joinpath("native", "native.cpp")
    tuned = "-mcpu=native" if platform.machine() in ("arm64", "aarch64") else "-march=native"
    command = [compiler, *FLAGS, tuned, str(source), "-o", str(target)]
    try:
        subprocess.run([*command, "-fopenmp"], check=True, capture_output=True, timeout=PATIENCE)
    except subprocess.CalledProcessError:  # not every compiler has OpenMP; threads of our own then
        subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE)


def _loaded_from(kept: Path, key: str) -> ctypes.CDLL | None:
    """The library, if the file is what its name says; a damaged one may not even be opened."""
    try:
        if kept.name == f"{key}-{hashlib.sha256(kept.read_bytes()).hexdigest()}.so":
            return ctypes.CDLL(str(kept))
        kept.unlink()
    except OSError:
        pass
    return None


@cache
def _sources() -> bytes:
    folder = files("sureprox.backends").joinpath("native")
    return b"".join(part.name.encode() + part.read_bytes() for part in sorted(folder.iterdir(), key=lambda p: p.name))


def _key(compiler: str) -> str:
    """What the result depends on: the sources, the flags, the compiler and the processor."""
    real = Path(compiler).resolve()
    stat = real.stat()
    parts = [repr((FLAGS, str(real), stat.st_size, stat.st_mtime_ns, platform.machine(), _processor())).encode()]
    return hashlib.sha256(b"\0".join([_sources(), *parts])).hexdigest()[:16]


def _processor() -> str:
    """What -march=native looks at: the model and the features of the first processor."""
    try:
        first = Path("/proc/cpuinfo").read_text().partition("\n\n")[0].splitlines()
    except OSError:
        return platform.processor()
    return "\n".join(line for line in first if line.startswith(("model", "vendor", "flags", "Features", "CPU")))


def _line(error: Exception) -> str:
    said = getattr(error, "stderr", None)
    text = said.decode(errors="replace") if isinstance(said, bytes) and said else str(error)
    return next((line for line in text.splitlines() if "error" in line), text.strip().partition("\n")[0])
