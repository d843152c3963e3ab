"""What smooth parts and penalties have in common: they hold the tensors of a batch."""

import copy
from abc import ABC
from collections.abc import Callable
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from sureprox.errors import InputError


class BatchData(ABC):  # noqa: B024  its subclasses have the abstract methods
    """Tensors of a batch kept as attributes: moving them, and picking instances out of them.

    `batched` names the attributes whose first dimension is the batch. Without it the batch is never cut, which costs
    time once some instances are solved, but is always right.
    """

    batched: ClassVar[tuple[str, ...] | None] = None
    stackable: ClassVar[bool] = False

    @property
    def can_stack(self) -> bool:
        """Whether several points per instance can be evaluated together (`stacked`).

        Only a class that says so itself: a subclass may have changed what its parent's `stacked` relies on.
        """
        return bool(vars(type(self)).get("stackable", False))

    @property
    def selectable(self) -> bool:
        return self.batched is not None

    @classmethod
    def trusted(cls, **fields: Any) -> Self:
        """An instance holding exactly these attributes, unchecked: for data this package has made itself."""
        made = cls.__new__(cls)
        vars(made).update(fields)
        return made

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> Self:
        """The same on another device or in another precision; unchanged tensors are shared, not copied."""
        return self._map(lambda name, value: value.to(device=device, dtype=dtype))

    def select(self, index: Tensor) -> Self:
        """Only the instances in `index`."""
        if self.batched is None:
            kind = type(self).__name__
            raise InputError(f"{kind} cannot be cut; name its per-instance tensors, for example batched = ('A', 'b')")
        names = self.batched
        return self._map(lambda name, value: value[index] if name in names else value)

    def _map(self, change: Callable[[str, Tensor], Tensor]) -> Self:
        clone = copy.copy(self)
        for name, value in vars(self).items():
            if isinstance(value, Tensor):
                setattr(clone, name, change(name, value))
        return clone

    @property
    def requires_grad(self) -> bool:
        return any(value.requires_grad for value in vars(self).values() if isinstance(value, Tensor))


def repeated_rows(value: Tensor, copies: int) -> Tensor:
    """Every row `copies` times in a row."""
    return value.unsqueeze(1).expand(-1, copies, *value.shape[1:]).flatten(0, 1)


def taken(whole: Tensor, rows: Tensor) -> Tensor:
    """The `rows` (R,), all different and in order, of `whole` (B, ...); that itself if they are all of them."""
    return whole if len(rows) == len(whole) else whole[rows]
