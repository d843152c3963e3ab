"""Loading a CUDA kernel from machine code, and launching it from Python without detours."""

import ctypes
import os
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import torch
from torch import Tensor

from sureprox.kernels.runtime.abi import in_order

NO_CONTEXT = 201  # CUDA_ERROR_INVALID_CONTEXT: nothing of this thread has used the device yet
SHARED_BYTES = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES


@cache
def _library() -> Any:
    return ctypes.CDLL("nvcuda.dll" if os.name == "nt" else "libcuda.so.1")


@cache
def _driver() -> Any:
    """cuLaunchKernel of CUDA's driver."""
    number, address = ctypes.c_uint, ctypes.c_void_p
    launch = _library().cuLaunchKernel
    launch.argtypes = [address, *[number] * 7, address, address, address]
    launch.restype = ctypes.c_int
    return launch


def function(code: bytes, name: str, shared_memory: int) -> ctypes.c_void_p:
    """The kernel `name` of a cubin on the current device, allowed this much shared memory."""
    driver, module, found = _library(), ctypes.c_void_p(), ctypes.c_void_p()
    _checked(driver.cuModuleLoadData(ctypes.byref(module), code))
    _checked(driver.cuModuleGetFunction(ctypes.byref(found), module, name.encode()))
    if shared_memory:
        _checked(driver.cuFuncSetAttribute(found, SHARED_BYTES, shared_memory))
    return found


def _checked(failed: int) -> None:
    if failed:
        raise RuntimeError(f"CUDA could not load a kernel: error {failed} of its driver")


def launcher(function: Any, file: str, name: str, device: int) -> Callable[..., None]:
    """What launches a kernel of the driver, made of `name` in a .cu file, with a value for each of its arguments."""
    _driver()  # found now, or no kernel is

    def launch(
        grid: tuple[int, int, int], block: tuple[int, int, int], arguments: Mapping[str, Any], shared_mem: int = 0
    ) -> None:
        if any(isinstance(value, Tensor) and value.get_device() != device for value in arguments.values()):
            raise ValueError(f"a kernel of CUDA device {device} was given a tensor that is elsewhere; move it there")
        values = in_order(file, name, arguments)
        places = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
        where = (*grid, *block, shared_mem, torch._C._cuda_getCurrentRawStream(device))
        failed = _driver()(function, *where, places, None)
        if failed == NO_CONTEXT:
            torch.empty(1, device=torch.device("cuda", device)).zero_()
            failed = _driver()(function, *where, places, None)
        if failed:
            raise RuntimeError(f"CUDA could not launch a kernel: error {failed} of its driver")

    return launch
