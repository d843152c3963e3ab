"""CUDA kernels of the package, compiled when first needed by the CUDA that PyTorch brings."""

import contextlib
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

import torch

from sureprox.kernels.runtime.launch import function, launcher
from sureprox.kernels.runtime.nvrtc import is_kept, machine_code

Macros = tuple[tuple[str, int], ...]
Build = tuple[str, str, Macros, int, int]  # file, kernel, compile-time numbers, device, bytes of shared memory


def source(file: str, macros: Mapping[str, int]) -> str:
    """The text of a .cu file with its compile-time numbers and the files that it includes."""
    defines = "".join(f"#define {name} {value}\n" for name, value in macros.items())
    return defines + _text(file, set())


def _text(file: str, known: set[str]) -> str:
    """The run-time compiler knows no folder to include from; each file is included once."""
    known.add(file)
    text = files("sureprox.kernels").joinpath(file).read_text(encoding="utf-8").replace("#pragma once\n", "")

    def included(found: re.Match[str]) -> str:
        return "" if found[1] in known else _text(found[1], known)

    return re.sub(r'^#include "([\w/]+\.(?:cu|h))"$', included, text, flags=re.MULTILINE)


@cache
def _architecture(device: int) -> str:
    return "sm_{}{}".format(*torch.cuda.get_device_capability(device))


@cache
def kernel(file: str, name: str, macros: Macros, device: int, shared_memory: int = 0) -> Any:
    """The kernel `name` of `file` on a device, allowed this much shared memory. Building it takes seconds, once."""
    code = machine_code(source(file, dict(macros)), _architecture(device))
    with torch.cuda.device(device):
        torch.zeros(1, device="cuda")  # makes the context of this thread that the kernel is loaded into
        made = function(code, name, shared_memory)
    quick = launcher(made, file, name, device)

    def launch(*arguments: Any, **options: Any) -> None:
        if torch.cuda.current_device() == device:
            quick(*arguments, **options)
        else:
            with torch.cuda.device(device):
                quick(*arguments, **options)

    return launch


def built(builds: Iterable[Build]) -> bool:
    """Build all of these now, unless they are there; False if one cannot be."""
    try:
        for build in builds:
            kernel(*build)
            _loaded.add(build)
    except (OSError, RuntimeError, AttributeError):  # no compiler or driver, one that fails, one that is too old
        return False
    return True


def at_hand(builds: Iterable[Build]) -> bool:
    """Whether all of these were built before, by this process or another one."""
    left = [build for build in builds if build not in _loaded]
    try:
        return all(is_kept(source(file, dict(macros)), _architecture(device)) for file, _, macros, device, _ in left)
    except (OSError, RuntimeError, AttributeError):
        return False


_loaded: set[Build] = set()
_builders: dict[tuple[Build, ...], threading.Thread] = {}


def build_later(builds: Iterable[Build]) -> None:
    """Build them once, in a thread of their own; later solves find them on disk."""
    wanted = tuple(builds)
    if wanted not in _builders:
        _builders[wanted] = threading.Thread(target=_keep, args=(wanted,), daemon=True)
        _builders[wanted].start()


def _keep(builds: tuple[Build, ...]) -> None:
    with contextlib.suppress(OSError, RuntimeError, AttributeError):  # as in `built`
        for file, _, macros, device, _ in builds:
            machine_code(source(file, dict(macros)), _architecture(device))


@cache
def multiprocessors(device: int) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count


def shared_memory(device: torch.device) -> int:
    """Bytes of shared memory that a block may ask for."""
    properties: Any = torch.cuda.get_device_properties(device)
    return int(properties.shared_memory_per_block_optin)


def usable(device: torch.device, dtype: torch.dtype, needed: int) -> bool:
    """Whether float32 kernels that need this much shared memory can be built for the device."""
    if device.type != "cuda" or dtype != torch.float32 or torch.version.cuda is None:
        return False
    return shared_memory(device) >= needed


def index(device: torch.device) -> int:
    """The number of a CUDA device."""
    return device.index if device.index is not None else torch.cuda.current_device()


def direct(operation: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, which launches a kernel, or, where something is compiled or differentiated, the operation made of it.

    PyTorch takes a quarter of a millisecond to call an operation that is written in Python.
    """
    return operation if torch.compiler.is_dynamo_compiling() or torch.is_grad_enabled() else function


@dataclass
class Results:
    """Memory for what kernels return, in the order in which they ask for it."""

    given: Mapping[int, torch.Tensor]  # by number: what is to be used instead of new memory
    places: list[int] = field(default_factory=list)  # addresses


_results: ContextVar[Results | None] = ContextVar("results", default=None)


@contextmanager
def results(given: Mapping[int, torch.Tensor]) -> Iterator[Results]:
    """Within this, what kernels return is numbered, and `given` memory is used for some of it."""
    token = _results.set(Results(given))
    try:
        yield _results.get()  # type: ignore[misc]
    finally:
        _results.reset(token)


def result(like: torch.Tensor) -> torch.Tensor:
    """Memory for a result of this shape and kind."""
    inside = _results.get()
    found = inside.given.get(len(inside.places)) if inside is not None else None
    if found is None or found.shape != like.shape or found.dtype != like.dtype:
        found = like.new_empty(like.shape)
    if inside is not None:
        inside.places.append(found.data_ptr())
    return found


def aligned(value: torch.Tensor) -> torch.Tensor:
    """The same numbers in one piece that starts at a multiple of 16 bytes, as reads of four at a time need it."""
    value = value.contiguous()
    return value if value.data_ptr() % 16 == 0 else value.clone()
