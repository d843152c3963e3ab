"""CUDA kernels of the package, compiled for the CPU by emulate.h, so that they are tested where there is no GPU."""

import ctypes
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
    """The kernels of tests/backends/`file` as a library."""
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("needs g++ to run the kernel on the CPU")
    library = directory / "emulated.so"
    defines = [f"-D{name}={value}" for name, value in macros.items()]
    command = [
        compiler,
        "-std=c++17",
        "-O1",
        "-shared",
        "-fPIC",
        *defines,
        f"-I{Path(cuda.__file__).parents[1]}",
        f"-I{Path(__file__).parent}",
    ]
    made = subprocess.run(
        [*command, str(Path(__file__).parent / file), "-o", str(library)], capture_output=True, text=True, check=False
    )
    assert made.returncode == 0, made.stderr
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
