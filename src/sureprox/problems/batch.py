"""What smooth parts and penalties have in common: they hold the tensors of a batch."""

import copy
from abc import ABC
from collections.abc import Callable
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from sureprox.base.errors import InputError


class BatchData(ABC):  # noqa: B024  its subclasses have the abstract methods
    """Tensors of a batch kept as attributes: moving them, and picking instances out of them.

    `batched` names the attributes whose first dimension is the batch. Without it the batch is never cut, which costs
    time once some instances are solved, but is always right. So it is with a subclass that adds a tensor to its
    parent's and does not say `batched` again.

    What a class proves or promises about itself is not inherited (`states`): a subclass may be another function.
    """

    batched: ClassVar[tuple[str, ...] | None] = None
    stackable: ClassVar[bool] = False

    @property
    def can_stack(self) -> bool:
        """Whether several points per instance can be evaluated together (`stacked`)."""
        return self.states("stackable")

    def states(self, name: str) -> bool:
        """Whether the very class of this object defines `name`, a method or a true flag; its parents do not count."""
        return bool(vars(type(self)).get(name, False))

    @property
    def selectable(self) -> bool:
        names = self.batched
        if names is None:
            return False
        known = "batched" in vars(type(self)) or all(name in names for name in self._tensors())
        return known and all(part.selectable for part in self._parts().values())

    @classmethod
    def trusted(cls, **fields: Any) -> Self:
        """An instance holding exactly these attributes, unchecked: for data this package has made itself."""
        made = cls.__new__(cls)
        vars(made).update(fields)
        return made

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> Self:
        """The same on another device or in another precision; unchanged tensors are shared, not copied.

        Complex tensors become those of this precision; whole numbers and booleans keep their type.
        """
        return self._map(
            lambda name, value: value.to(device=device, dtype=converted(value.dtype, dtype)),
            lambda name, part: part.to(device, dtype),
        )

    def select(self, index: Tensor) -> Self:
        """Only the instances in `index`."""
        if not self.selectable:
            kind = type(self).__name__
            raise InputError(f"{kind} cannot be cut; name its per-instance tensors, for example batched = ('A', 'b')")
        return self._map(
            lambda name, value: value[index] if self._is_cut(name, value) else value,
            lambda name, part: part.select(index),
        )

    def _is_cut(self, name: str, value: Tensor) -> bool:
        """Whether the first dimension of this attribute is the batch."""
        return name in (self.batched or ()) and value.ndim > 0

    def _map(
        self,
        change: Callable[[str, Tensor], Tensor],
        change_part: Callable[[str, "BatchData"], "BatchData"] = lambda name, part: part,
    ) -> Self:
        """A copy with `change` of every tensor, and `change_part` of every part that holds tensors of its own."""
        clone = copy.copy(self)
        for name, value in self._tensors().items():
            setattr(clone, name, change(name, value))
        for name, part in self._parts().items():
            setattr(clone, name, change_part(name, part))
        return clone

    def _tensors(self) -> dict[str, Tensor]:
        return {name: value for name, value in vars(self).items() if isinstance(value, Tensor)}

    def _parts(self) -> dict[str, "BatchData"]:
        """Attributes that hold tensors in turn: operators."""
        return {name: value for name, value in vars(self).items() if isinstance(value, BatchData)}

    def tensors(self) -> list[Tensor]:
        """All tensors, those of operators too, in a fixed order."""
        own = [value for value in vars(self).values() if isinstance(value, Tensor)]
        return own + [value for part in self._parts().values() for value in part.tensors()]

    @property
    def requires_grad(self) -> bool:
        return any(value.requires_grad for value in self.tensors())


def converted(kind: torch.dtype, wanted: torch.dtype | None) -> torch.dtype | None:
    """The type that a tensor of type `kind` has where the real numbers are `wanted`."""
    if wanted is None or kind.is_floating_point:
        return wanted
    return wanted.to_complex() if kind.is_complex else kind


def defined_at(kind: type, name: str) -> int:
    """How many classes above `kind` the attribute `name` is defined; 0: in its own body."""
    return next(level for level, parent in enumerate(kind.__mro__) if name in vars(parent))


def repeated_rows(value: Tensor, copies: int) -> Tensor:
    """Every row `copies` times in a row."""
    return value.unsqueeze(1).expand(-1, copies, *value.shape[1:]).flatten(0, 1)


def taken(whole: Tensor, rows: Tensor) -> Tensor:
    """The `rows` (R,), all different and in order, of `whole` (B, ...); that itself if they are all of them."""
    return whole if len(rows) == len(whole) else whole[rows]
