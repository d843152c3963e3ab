"""Run the tests of the CPU kernels with the address and undefined-behaviour sanitizers: sanitize.py [tests ...]

The kernels are built with them into a cache of their own. The first error ends the run, and its place is printed.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TESTS = [f"tests/backends/test_native_{name}.py" for name in ("steps", "certified", "cheap", "certificate", "polish")]
TESTS += ["tests/backends/test_native_spectrum.py", "tests/test_working_set.py"]
FLAGS = "-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer -g"


def main() -> int:
    compiler = shutil.which("g++")
    if compiler is None:
        print("the sanitizers are those of g++, which is not on the PATH; install it")
        return 1
    libraries = []
    for name in ("libasan.so", "libubsan.so"):  # to be loaded before Python
        command = [compiler, f"-print-file-name={name}"]
        libraries.append(subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip())
    with tempfile.TemporaryDirectory() as cache:
        wrapped = Path(cache) / "c++"
        wrapped.write_text(f'#!/bin/sh\nexec {compiler} {FLAGS} "$@" -O1\n')
        wrapped.chmod(0o700)
        settings = {
            "CXX": str(wrapped),
            "LD_PRELOAD": ":".join(libraries),
            "ASAN_OPTIONS": "detect_leaks=0",  # Python leaves at its end what it would not need to
            "UBSAN_OPTIONS": "print_stacktrace=1",
            "SUREPROX_CACHE": cache,
            "OMP_NUM_THREADS": "1",
        }
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-s", "-o", "timeout=1800", *(sys.argv[1:] or TESTS)]
        return subprocess.run(command, cwd=ROOT, env=os.environ | settings, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
