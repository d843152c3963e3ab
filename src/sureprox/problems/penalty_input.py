"""The numbers and groups that users give penalties, read and checked.

A plain number is kept in float64, so that `Problem` rounds it once, to its own precision.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from sureprox.base.errors import InputError
from sureprox.problems import checks

NONE = -1  # the group of a coordinate that is in none
MOST = 2**28  # coordinates that lists may name, so that a typing error does not take all memory


def nonnegative(name: str, value: Any) -> Tensor:
    """Finite numbers >= 0 of any shape."""
    tensor = checks.real(name, value)
    _require_nonnegative(name, tensor)
    return tensor


def per_instance(name: str, value: Any) -> Tensor:
    """A finite number >= 0, or (B,) of them."""
    tensor = nonnegative(name, value)
    if tensor.ndim > 1:
        raise InputError(f"{name} has shape {tuple(tensor.shape)}; pass a number or shape (B,)")
    return tensor


def _require_nonnegative(name: str, tensor: Tensor) -> None:
    bad = ~(torch.isfinite(tensor.detach()) & (tensor.detach() >= 0))
    if bool(bad.any()):
        raise InputError(f"{name} is {float(tensor.detach()[bad][0]):g} somewhere; it must be finite and >= 0")


def _at_most_rows(name: str, value: Any) -> Tensor:
    tensor = checks.real(name, value)
    if tensor.ndim > 2:
        raise InputError(f"{name} has shape {tuple(tensor.shape)}; pass a number, (B,), (n,) or (B, n)")
    return tensor


def weights(name: str, value: Any) -> Tensor | None:
    """l1 or l2, None for the number 0."""
    if value is None or (isinstance(value, int | float) and value == 0):
        return None
    tensor = _at_most_rows(name, value)
    _require_nonnegative(name, tensor)
    return tensor


def bounds(name: str, value: Any, none: float) -> Tensor | None:
    """low or high, None where there is none."""
    if value is None or (isinstance(value, int | float) and value == none):
        return None
    tensor = _at_most_rows(name, value)
    bad = torch.isnan(tensor.detach()) | (tensor.detach() == -none)
    if bool(bad.any()):
        raise InputError(f"{name} is {float(tensor.detach()[bad][0]):g} somewhere; it must be a number or {none:g}")
    return tensor


def require_order(low: Tensor, high: Tensor) -> None:
    wrong = low.detach() > high.detach()
    if bool(wrong.any()):
        pair = float(low.detach()[wrong][0]), float(high.detach()[wrong][0])
        raise InputError(f"low is {pair[0]:g} and high is {pair[1]:g} somewhere; low must not be above high")


def fitted(name: str, value: Tensor, batch: int, n: int, placed: bool) -> Tensor:
    """(), (B,), (1, n) or (B, n): what one dimension means is decided by its length, once."""
    shape = tuple(value.shape)
    if placed and shape == (batch,):
        return value
    if value.ndim == 1 and shape != (batch,) and shape == (n,) and not placed:
        return value.unsqueeze(0)
    if value.ndim == 1 and shape == (batch,) and batch == n > 1:
        raise InputError(f"{name} has shape {shape}, and batch and n are both {n}; pass (1, {n}) or ({batch}, 1)")
    if shape not in ((), (batch,), (batch, 1), (1, n), (batch, n), (1, 1)):
        raise InputError(f"{name} has shape {shape}; this problem needs a number, ({batch},), ({n},) or ({batch}, {n})")
    if value.ndim == 2 and value.shape[1] == 1 and n > 1:
        return value.reshape(-1) if len(value) == batch else value.reshape(())
    return value


def is_list_of_groups(groups: Any) -> bool:
    return isinstance(groups, list | tuple) and any(isinstance(g, list | tuple | np.ndarray | Tensor) for g in groups)


def labels(groups: Any) -> Tensor:
    """(n,) the group of each coordinate."""
    checks.require_unmasked("groups", groups)
    try:
        labels = torch.as_tensor(groups)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError("groups cannot be read: pass the group of each coordinate, or lists of coordinates") from error
    whole = not (labels.dtype.is_floating_point or labels.dtype.is_complex or labels.dtype is torch.bool)
    if labels.ndim != 1 or len(labels) == 0 or not whole:
        what = f"shape {tuple(labels.shape)} and type {labels.dtype}"
        raise InputError(f"groups has {what}; pass whole numbers (n,), the group of each coordinate, or lists")
    labels = labels.to(torch.int64)
    if bool((labels < NONE).any()):
        raise InputError(f"groups holds {int(labels.min())}; groups are numbered from 0, and -1 is in none")
    count = min(int(labels.max()), len(labels)) + 1  # more groups than coordinates: one of the first is empty
    counts = torch.bincount(labels[(labels >= 0) & (labels < count)], minlength=count)
    if len(counts) == 0 or bool((counts == 0).any()):
        empty = int((counts == 0).nonzero()[0]) if len(counts) else 0
        raise InputError(f"group {empty} is empty; number the groups from 0 without gaps")
    return labels


def from_lists(groups: Any) -> Tensor:
    """The same from the coordinates in each group."""
    members: list[np.ndarray[Any, Any]] = []
    for number, group in enumerate(groups):
        checks.require_unmasked("groups", group)
        indices = np.asarray(group)
        if indices.size == 0:
            raise InputError(f"group {number} is empty; leave it out")
        if indices.ndim != 1 or indices.dtype.kind not in "iu" or indices.min() < 0:
            raise InputError(f"group {number} is {group!r}; pass the coordinates in it, whole numbers from 0")
        if indices.max() >= MOST:
            raise InputError(f"group {number} has coordinate {indices.max()}; at most {MOST:,} can be told apart")
        members.append(indices.astype(np.int64))
    everything = np.concatenate(members)
    values, counts = np.unique(everything, return_counts=True)
    if (counts > 1).any():
        raise InputError(f"coordinate {int(values[counts > 1][0])} is in two groups; groups must not overlap")
    labels = torch.full((int(everything.max()) + 1,), NONE, dtype=torch.int64)
    for number, indices in enumerate(members):
        labels[torch.from_numpy(indices)] = number
    return labels
