"""States, however nested, as tuples of tensors and back: what compiled code takes and returns."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

from torch import Tensor

from sureprox.optimizers.base import Batched


@dataclass(frozen=True)
class Structure:
    """A state without its tensors: its class, and for each field its name and what it is.

    A field is a tensor ("tensor"), a count of steps ("count"), another `Structure`, or something that a step does not
    touch ("fixed").
    """

    kind: type[Any]
    fields: tuple[tuple[str, "str | Structure"], ...]


def structure(state: Batched) -> Structure:
    found: list[tuple[str, str | Structure]] = []
    for field in fields(state):
        value = getattr(state, field.name)
        if isinstance(value, Batched):
            found.append((field.name, structure(value)))
        elif isinstance(value, Tensor):
            found.append((field.name, "tensor"))
        else:
            found.append((field.name, "count" if field.name == "k" else "fixed"))
    return Structure(type(state), tuple(found))


def tensors(state: Any, shape: Structure) -> tuple[Tensor, ...]:
    """The tensors of a state, in the order of its structure."""
    found: list[Tensor] = []
    for name, part in shape.fields:
        if part == "tensor":
            found.append(getattr(state, name))
        elif isinstance(part, Structure):
            found.extend(tensors(getattr(state, name), part))
    return tuple(found)


def bare(shape: Structure, values: Iterator[Tensor]) -> Any:
    """A state with these tensors, its counts zero and everything else None."""
    made: dict[str, Any] = {}
    for name, part in shape.fields:
        if isinstance(part, Structure):
            made[name] = bare(part, values)
        else:
            made[name] = next(values) if part == "tensor" else 0 if part == "count" else None
    return shape.kind(**made)


def restored(state: Any, shape: Structure, values: Iterator[Tensor]) -> Any:
    """`state` a step later: with these tensors and its counts one higher, all else unchanged."""
    made: dict[str, Any] = {}
    for name, part in shape.fields:
        value = getattr(state, name)
        if isinstance(part, Structure):
            made[name] = restored(value, part, values)
        else:
            made[name] = next(values) if part == "tensor" else value + 1 if part == "count" else value
    return shape.kind(**made)
