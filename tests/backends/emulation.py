"""CUDA kernels of the package, compiled for the CPU by emulate.h, so that they are tested where there is no GPU."""

import ctypes
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from sureprox.kernels.lipschitz.gpu_orthonormal import MEMORY
from sureprox.kernels.runtime import abi, cuda


def emulated(file: str, macros: Mapping[str, int], directory: Path) -> ctypes.CDLL:
    """The kernels of tests/backends/`file` as a library, which all processes of a test session share."""
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("needs g++ to run the kernel on the CPU")
    session = directory.parents[1] if "PYTEST_XDIST_WORKER" in os.environ else directory.parent
    name = "-".join([Path(file).stem, *(f"{key}{value}" for key, value in macros.items())])
    library, fresh = session / f"{name}.so", directory / f"{name}.so"
    if not library.exists():
        here = Path(__file__).parent
        command = [compiler, "-std=c++17", "-O1", "-shared", "-fPIC", *(f"-D{k}={v}" for k, v in macros.items())]
        command += [f"-I{Path(cuda.__file__).parents[1]}", f"-I{here}", str(here / file), "-o", str(fresh)]
        made = subprocess.run(command, capture_output=True, text=True, check=False, timeout=280)
        assert made.returncode == 0, made.stderr
        fresh.replace(library)  # whole or absent, whoever was quicker
    return ctypes.CDLL(str(library))


def emulated_for(file: str, directories: pytest.TempPathFactory) -> Callable[..., ctypes.CDLL]:
    """What gives the library of `file` for compile-time numbers, each compiled once."""

    @cache
    def library(macros: cuda.Macros) -> ctypes.CDLL:
        return emulated(file, dict(macros), directories.mktemp("kernel"))

    return library


def run(library: ctypes.CDLL, shared_memory: int, *arguments: Any) -> None:
    """One launch, with so many bytes of shared memory: none beyond is written."""
    library.ask_for(shared_memory)
    library.run(*arguments)
    assert not library.wrote_beyond()


def listed(file: str, name: str, arguments: Mapping[str, Any]) -> list[Any]:
    """The arguments of a kernel as they follow each other; each has one, and there are no others."""
    abi.in_order(file, name, arguments)
    return [arguments[field] for field, _ in abi.parameters(file, name)]


def pointer(tensor: torch.Tensor | None) -> ctypes.c_void_p:
    return ctypes.c_void_p(tensor.data_ptr() if tensor is not None and tensor.numel() else None)


def emulated_gram_schmidt(directory: Path) -> Callable[..., Any]:
    """The kernel of orthonormal.cu."""
    library = emulated("emulate_orthonormal.cpp", {}, directory)

    def launch(grid, block, arguments, shared_mem):
        assert shared_mem == MEMORY
        listing = listed("lipschitz/orthonormal.cu", "orthonormal", arguments)
        *tensors, size, count, known, apart, room, first, second = listing
        drops = (ctypes.c_double(first), ctypes.c_double(second))
        run(library, shared_mem, *map(pointer, tensors), size, count, known, apart, room, *drops, grid[0])

    return launch
