"""CUDA source to machine code by NVRTC, the compiler that comes with PyTorch's CUDA; what was built is kept on disk.

The name of a kept file holds everything the machine code depends on: source, options, architecture and compiler. Its
last 32 bytes are the SHA-256 of the rest, so that a file cut short is built again.
"""

import contextlib
import ctypes
import hashlib
import os
from functools import cache
from pathlib import Path
from typing import Any

import torch

from sureprox.base.cache import cache_directory
from sureprox.base.files import write_atomically
from sureprox.base.private import open_private, private_directory, user

OPTIONS = ("--std=c++17",)
DIGEST = 32  # bytes at the end of a kept file


@cache
def _compiler() -> Any:
    """The library; OSError where there is none."""
    major = str(torch.version.cuda).partition(".")[0]
    names = [f"nvrtc64_{major}0_0.dll"] if os.name == "nt" else [f"libnvrtc.so.{major}", "libnvrtc.so"]
    for name in names[:-1]:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    return ctypes.CDLL(names[-1])


@cache
def version() -> tuple[int, int]:
    """Of the compiler."""
    major, minor = ctypes.c_int(), ctypes.c_int()
    _checked(_compiler().nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)))
    return major.value, minor.value


def machine_code(source: str, architecture: str) -> bytes:
    """The cubin of `source` for an architecture such as sm_90: kept from an earlier run, or built now."""
    name = _name(source, architecture)
    kept = _kept(name)
    if kept is not None:
        return kept
    code = built(source, architecture)
    with contextlib.suppress(OSError):  # nowhere to keep it: it serves this process only
        write_atomically(private_directory(_folder()) / name, code + hashlib.sha256(code).digest())
    return code


def is_kept(source: str, architecture: str) -> bool:
    """Whether the cubin lies on disk."""
    return _kept(_name(source, architecture)) is not None


def built(source: str, architecture: str) -> bytes:
    """The cubin of `source`; RuntimeError with the first error of the compiler where it does not compile."""
    compiler, program = _compiler(), ctypes.c_void_p()
    options = [f"--gpu-architecture={architecture}", *OPTIONS]
    given = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
    create = compiler.nvrtcCreateProgram
    create.argtypes = [
        ctypes.c_void_p,
        ctypes.c_char_p,
        ctypes.c_char_p,
        ctypes.c_int,
        ctypes.c_void_p,
        ctypes.c_void_p,
    ]
    _checked(create(ctypes.byref(program), source.encode(), b"sureprox.cu", 0, None, None))
    try:
        if compiler.nvrtcCompileProgram(program, len(options), given):
            log = _bytes(compiler.nvrtcGetProgramLogSize, compiler.nvrtcGetProgramLog, program)
            lines = log.decode(errors="replace").splitlines()
            raise RuntimeError(next((line for line in lines if "error" in line), "NVRTC could not compile a kernel"))
        return _bytes(compiler.nvrtcGetCUBINSize, compiler.nvrtcGetCUBIN, program)
    finally:
        compiler.nvrtcDestroyProgram(ctypes.byref(program))


def _bytes(size_of: Any, content_of: Any, program: ctypes.c_void_p) -> bytes:
    size = ctypes.c_size_t()
    _checked(size_of(program, ctypes.byref(size)))
    content = ctypes.create_string_buffer(size.value)
    _checked(content_of(program, content))
    return content.raw


def _checked(failed: int) -> None:
    if failed:
        raise RuntimeError(f"NVRTC failed with error {failed}")


def _name(source: str, architecture: str) -> str:
    key = repr((source, OPTIONS, architecture, version())).encode()
    return f"{hashlib.sha256(key).hexdigest()}.cubin"


def _folder() -> Path:
    """Where machine code is kept: one place for each user of the cache directory."""
    return cache_directory() / f"cuda-{user()}"


def _kept(name: str) -> bytes | None:
    """The machine code, if it is there, whole, and nobody else can have written it."""
    try:
        with open(open_private(private_directory(_folder(), make=False) / name), "rb") as file:
            content = file.read()
    except OSError:
        return None
    code, digest = content[:-DIGEST], content[-DIGEST:]
    return code if code and hashlib.sha256(code).digest() == digest else None
