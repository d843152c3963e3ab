"""The C++ of the kernels gives no warning, with and without wide registers."""

import platform
import shutil
import subprocess
from pathlib import Path

import pytest

from sureprox.kernels.runtime import cuda

KERNELS = Path(cuda.__file__).parents[1]
# That the headers of GCC 12 for these registers use what is not initialized is theirs (its bug 105593).
WIDE = ("-march=x86-64-v4", "-Wno-uninitialized", "-Wno-maybe-uninitialized")
REGISTERS = {"plain": (), "x86-64-v3": ("-march=x86-64-v3",), "x86-64-v4": WIDE}


@pytest.mark.parametrize("registers", REGISTERS)
def test_native_code_gives_no_warning(registers, tmp_path):
    compiler = shutil.which("g++")
    if compiler is None or (registers != "plain" and platform.machine() not in ("x86_64", "AMD64")):
        pytest.skip("needs g++, and a processor of this kind")
    flags = ["-std=c++17", "-O1", "-fPIC", "-shared", "-pthread", "-Wall", "-Wextra", "-Werror", *REGISTERS[registers]]
    command = [compiler, *flags, f"-I{KERNELS}", str(KERNELS / "runtime/native.cpp"), "-o", str(tmp_path / "native.so")]
    made = subprocess.run(command, capture_output=True, text=True, check=False, timeout=250)
    assert made.returncode == 0, made.stderr
