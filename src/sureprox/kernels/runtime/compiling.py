"""The command that compiles the C++ of the kernels, run for a limited time."""

import os
import platform
import shlex
import shutil
import signal
import subprocess
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import Any

FLAGS = ("-std=c++17", "-O3", "-fno-math-errno", "-fPIC", "-shared", "-pthread")
INSTALL = "Debian: apt install g++; macOS: xcode-select --install"
PATIENCE = 300.0  # seconds a compiler may take: many times what it does, for machines that are busy


class CompilerError(Exception):
    """No compiler, or one that failed; says why in one line."""


def compiler() -> list[str]:
    """CXX, which may hold options or a wrapper as in `ccache g++`, else c++; the program by its full path."""
    named = os.environ.get("CXX") or "c++"
    try:
        words = [named] if shutil.which(named) else shlex.split(named)
    except ValueError as error:
        raise CompilerError(f"CXX is {named!r}, which cannot be read ({error}); quote it as a shell needs it") from None
    program = shutil.which(words[0]) if words else None
    if program is None:
        missing = words[0] if words else named
        raise CompilerError(
            f"no C++ compiler: {missing} is not on the PATH; install one ({INSTALL}), or name it in CXX"
        )
    return [program, *words[1:]]


def command(compiler: list[str]) -> list[str]:
    tuned = "-mcpu=native" if platform.machine() in ("arm64", "aarch64") else "-march=native"
    folder = files("sureprox.kernels")
    return [*compiler, *FLAGS, tuned, f"-I{folder}", str(folder.joinpath("runtime", "native.cpp"))]


def compile_to(target: Path, compiler: list[str]) -> None:
    """Compile into `target`; what the compiler says goes to a file beside it, which no child of it can keep open."""
    said = target.with_suffix(".txt")
    with said.open("wb") as errors:
        code = _run([*command(compiler), "-o", str(target)], errors.fileno())
    if code is None:
        raise CompilerError(f"{compiler[0]} took more than {PATIENCE:g} seconds and was ended")
    if code:
        text = said.read_text(errors="replace")
        line = next((line for line in text.splitlines() if "error" in line), text.strip().partition("\n")[0])
        raise CompilerError(f"{compiler[0]} could not compile the kernels: {line or f'exit status {code}'}")


def _run(words: list[str], errors: int) -> int | None:
    """The exit status; None if it took too long and was ended, with all that it had started."""
    own: dict[str, Any] = {"start_new_session": True} if os.name == "posix" else {}
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors, **own)
    try:
        return process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        _end(process)
        return None
    except BaseException:  # Ctrl-C, which a process of another session does not get
        _end(process)
        raise


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the process and its group, whose number is taken as long as nobody has waited for the process."""
    if os.name == "posix":
        with suppress(ProcessLookupError, PermissionError):  # the latter: some systems, of a group that has just ended
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    with suppress(subprocess.TimeoutExpired):  # stuck in the kernel, as on a file system that is gone
        process.wait(10)
