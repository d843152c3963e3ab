"""What is asked for beside the numbers: which loss, which penalty, in which precision."""

import difflib
from collections.abc import Collection
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, Self

import numpy as np
import torch

from sureprox.base.errors import InputError
from sureprox.base.words import suggested

NUMBERS = ("l1", "l2", "low", "high", "groups", "group_weights", "weights", "offset")
SPARSE = ("A_data", "A_indices", "A_indptr", "A_shape")  # A in CSR format, as its four arrays
KEYS = ("A", "b", "y", "lam", "x0", *NUMBERS, *SPARSE)
CLOSE = 0.7  # similarity from which a name counts as a misspelt one


class LossName(StrEnum):
    """f(x), with z = A x + offset; see `sureprox.losses`."""

    SQUARES = "squares"
    LOGISTIC = "logistic"
    HUBER = "huber"
    SQUARED_HINGE = "squared-hinge"
    POISSON = "poisson"
    QUANTILE = "quantile"
    SOFTMAX = "softmax"


class Kind(StrEnum):
    """The two problems that have names of their own."""

    LASSO = "lasso"  # A, b: 1/2 |A x - b|^2 + lam |x|_1
    LOGISTIC = "logistic"  # A, y: mean logistic loss + lam |x|_1


TARGETS = {  # keys of the right-hand side; the first is what a table or a pair of arrays gives
    LossName.SQUARES: ("b",),
    LossName.LOGISTIC: ("y",),
    LossName.HUBER: ("y", "b"),
    LossName.SQUARED_HINGE: ("y",),
    LossName.POISSON: ("y",),
    LossName.QUANTILE: ("y", "b"),
    LossName.SOFTMAX: ("y",),
}
PARAMETERS = {  # of the losses that have some
    "delta": LossName.HUBER,
    "level": LossName.QUANTILE,
    "smoothing": LossName.QUANTILE,
    "classes": LossName.SOFTMAX,
}


@dataclass(frozen=True)
class Asked:
    """How arrays are understood.

    kind: "lasso", or the name of a loss. loss: one of `LossName`. None: what the keys say, b squares and y logistic.
    lam: the weight of |x|_1, which is also called l1; with `groups`, that of the sum of the groups' norms.
    lam_ratio: lam as a share of the smallest one with which zero is the solution, of each problem.
    l1, l2: l1 |x|_1 + l2/2 |x|^2. nonnegative: x >= 0. groups: (n,) the group of each coordinate, -1 for none.
    delta (Huber), level and smoothing (quantile), classes (softmax): see these losses.
    dtype: by default that of A, float64 for integers.

    Several values of lam, lam_ratio, l1 or l2: one for each problem, or all for a single one. What is given here takes
    the place of what arrays say.
    """

    kind: str | None = None
    lam: Any = None
    lam_ratio: Any = None
    dtype: torch.dtype | None = None
    loss: str | None = None
    l1: Any = None
    l2: Any = None
    nonnegative: bool = False
    groups: Any = None
    delta: float | None = None
    level: float | None = None
    smoothing: float | None = None
    classes: int | None = None

    def __post_init__(self) -> None:
        loss = self.named_loss
        if self.lam is not None and self.lam_ratio is not None:
            raise InputError("lam and lam_ratio are both given; choose one")
        if self.groups is None and self.l1 is not None and (self.lam is not None or self.lam_ratio is not None):
            raise InputError("l1 and lam are both given, two names of one number; choose one")
        for name, owner in PARAMETERS.items():
            if getattr(self, name) is not None and loss is not owner:
                raise InputError(f"{name} is given, and belongs to the loss {owner.value}; choose --loss {owner.value}")

    @classmethod
    def of(cls, options: dict[str, Any]) -> Self:
        """From options by name; a name that is not known is refused."""
        known = [field.name for field in fields(cls)]
        for name in options:
            if name not in known:
                raise InputError(f"there is no option {name!r}; {suggested(name, known)}")
        return cls(**options)

    @property
    def named_loss(self) -> LossName | None:
        """The loss that is asked for by either name; None where the arrays decide."""
        by_kind = None if self.kind is None else _loss_of_kind(self.kind)
        if self.loss is None:
            return by_kind
        if self.loss not in list(LossName):
            raise InputError(f"loss is {self.loss!r}; {suggested(self.loss, [name.value for name in LossName])}")
        by_loss = LossName(self.loss)
        if by_kind not in (None, by_loss):
            raise InputError(f"kind is {self.kind!r} and loss is {self.loss!r}; give one of them")
        return by_loss


def _loss_of_kind(kind: str) -> LossName:
    if kind == Kind.LASSO:
        return LossName.SQUARES
    if kind not in list(LossName):
        raise InputError(f"kind is {kind!r}; choose lasso or logistic, or another loss by --loss")
    return LossName(kind)


def check_names(source: str, names: Collection[str]) -> None:
    """Refuse a key that seems to be a misspelt one; other arrays may lie beside those that are read."""
    for name in names:
        if name not in KEYS and (meant := _meant(name)) is not None and meant not in names:
            raise InputError(f"{source} holds {name[:60]!r}, which is not read; did you mean {meant!r}?")


def _meant(name: str) -> str | None:
    """The key of which this is a misspelling; "lambda" and "lower" begin with theirs."""
    lower = name.lower()[:100]
    for key in KEYS:
        if len(key) > 2 and lower.startswith(key) and len(lower) <= len(key) + 3:
            return key
    close = difflib.get_close_matches(lower, [key for key in KEYS if len(key) > 1], n=1, cutoff=CLOSE)
    return close[0] if close else None


def values(name: str, given: Any) -> torch.Tensor:
    """A number or several, in float64."""
    plain = given.detach().cpu() if isinstance(given, torch.Tensor) else given
    try:
        return torch.from_numpy(np.array(plain, dtype=np.float64))  # a copy: what a file gives cannot be written to
    except (TypeError, ValueError, RuntimeError):
        raise InputError(f"{name} is {given!r}; give a number, or several") from None


def whole_numbers(name: str, given: Any) -> torch.Tensor:
    """Whole numbers, as int64; floats from a file are taken as they are meant."""
    array = np.asarray(given)
    if array.dtype.kind not in "iuf" or not np.isfinite(array).all() or (array != np.round(array)).any():
        raise InputError(f"{name} holds what is no whole number; give the group of each coordinate, 0, 1, ..., or -1")
    return torch.from_numpy(array.astype(np.int64))
