"""What a kernel is given, by name: the struct that its C++ declares, or the list of arguments of its CUDA.

These declarations are the only lists. Python reads them, so that nothing is given by place and nothing is forgotten.
Sizes that both sides need, such as the threads of a block, it reads there too.
"""

import ctypes
import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from torch import Tensor

NUMBERS = {"int64_t": ctypes.c_int64, "int": ctypes.c_int, "double": ctypes.c_double}
Fields = tuple[tuple[str, Any], ...]  # name and ctypes type


@cache
def struct(file: str, name: str) -> type[ctypes.Structure]:
    """The struct template `name` of a header."""
    body = _found(rf"^template <class T> struct {name} \{{(.*?)^\}};", file)
    fields = tuple(field for part in body.split(";") if part.strip() for field in _declared(part))
    return type(name, (ctypes.Structure,), {"_fields_": fields})


@cache
def parameters(file: str, name: str) -> Fields:
    """The arguments of the kernel `name` of a .cu file, in order."""
    body = _found(rf'^extern "C" __global__ [^;{{]*?\b{name}\(([^)]*)\) \{{', file)
    return tuple(field for part in body.split(",") for field in _declared(part))


def constants(file: str, *names: str) -> tuple[int, ...]:
    """The numbers of these names that a file of kernels declares."""
    return tuple(int(_found(rf"^constexpr int [^;]*?\b{name} = (\d+)[,;]", file)) for name in names)


@cache
def _text(file: str) -> str:
    """Without comments."""
    return re.sub(r"//.*", "", files("sureprox.kernels").joinpath(file).read_text(encoding="utf-8"))


def _found(pattern: str, file: str) -> str:
    found = re.search(pattern, _text(file), re.MULTILINE | re.DOTALL)
    if found is None:
        raise LookupError(f"{file} declares nothing like {pattern}")
    return found[1]


def _declared(declaration: str) -> Fields:
    """Of `const T *x, *y` or `int m, n`."""
    parts = declaration.split(",")
    names = [re.findall(r"\w+", part)[-1] for part in parts]
    if "*" not in declaration:
        kind = NUMBERS[parts[0].split()[0]]
    elif all("*" in part for part in parts):
        kind = ctypes.c_void_p
    else:
        raise LookupError(f"addresses and numbers in one declaration: {declaration.strip()}")
    return tuple((name, kind) for name in names)


def filled(kind: type[ctypes.Structure], values: Mapping[str, Any]) -> ctypes.Structure:
    """A struct with a value for each field: a tensor, which must outlive it, None for a null pointer, or a number."""
    if values.keys() != (wanted := _names(kind._fields_)):
        raise _mismatch(kind.__name__, wanted, values)
    made = kind()
    for name, value in values.items():
        setattr(made, name, value.data_ptr() if isinstance(value, Tensor) else value)
    return made


def in_order(file: str, name: str, values: Mapping[str, Any]) -> list[Any]:
    """A value for each argument of a kernel, as they follow each other: the address of a tensor, or a number."""
    wanted = parameters(file, name)
    if values.keys() != (names := _names(wanted)):
        raise _mismatch(name, names, values)
    given = ((kind, values[field]) for field, kind in wanted)
    return [kind(value.data_ptr() if isinstance(value, Tensor) else value) for kind, value in given]


def _mismatch(name: str, wanted: frozenset[str], values: Mapping[str, Any]) -> LookupError:
    missing, unknown = sorted(wanted - values.keys()), sorted(values.keys() - wanted)
    return LookupError(f"arguments of {name}: missing {missing}, unknown {unknown}")


@cache
def _names(fields: Fields) -> frozenset[str]:
    return frozenset(name for name, _ in fields)
