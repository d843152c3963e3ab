"""Operators made of others."""

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from sureprox.base.errors import InputError
from sureprox.base.types import Rows, Vectors
from sureprox.problems import checks
from sureprox.problems.operators.base import Operator, common_batch


class Combined(Operator):
    """Holds operators as attributes, so that they are moved and cut with it."""

    batched = ()

    def __init__(self, *operators: Any) -> None:
        if not operators:
            raise InputError(f"{type(self).__name__} has no operators; pass at least one")
        made = [checks.operator(one) for one in operators]
        common_batch(made)
        kinds = [one.like for one in made if one.like is not None]
        for like in kinds[1:]:
            checks.require_same_kind("an operator", like, "another one", kinds[0])
        vars(self).update({f"operator{i}": one for i, one in enumerate(made)})

    @property
    def batch(self) -> int | None:
        return common_batch(self._operators())


class Compose(Combined):
    """z = A (B x) for Compose(A, B), and so on for more: the last one is applied first."""

    def __init__(self, *operators: Any) -> None:
        super().__init__(*operators)
        parts = self._operators()
        for left, right in pairwise(parts):
            if left.shape[1] != right.shape[0]:
                raise InputError(
                    f"{left!r} cannot be applied to what {right!r} gives; Compose(A, B) needs as many columns of A as "
                    "rows of B"
                )

    @property
    def shape(self) -> tuple[int, int]:
        parts = self._operators()
        return parts[0].shape[0], parts[-1].shape[1]

    def forward(self, x: Vectors) -> Rows:
        for part in reversed(self._operators()):
            x = part.forward(x)
        return x

    def adjoint(self, z: Rows) -> Vectors:
        for part in self._operators():
            z = part.adjoint(z)
        return z

    @property
    def orthogonal(self) -> bool:  # type: ignore[override]
        return all(part.orthogonal for part in self._operators())

    def known_gram_norm(self) -> float | Tensor | None:
        """Orthogonal factors at either end change no singular value."""
        rest = self._operators()
        while rest and rest[-1].orthogonal:
            rest.pop()
        while rest and rest[0].orthogonal:
            rest.pop(0)
        return 1.0 if not rest else rest[0].known_gram_norm() if len(rest) == 1 else None


class Stack(Combined):
    """z = (A x, B x, ...): the rows of all of them, one below the other."""

    def __init__(self, *operators: Any) -> None:
        super().__init__(*operators)
        widths = [part.shape[1] for part in self._operators()]
        if len(set(widths)) > 1:
            raise InputError(f"the operators have {widths} columns; Stack needs the same number in each")

    @property
    def shape(self) -> tuple[int, int]:
        return sum(self._heights()), self._operators()[0].shape[1]

    def forward(self, x: Vectors) -> Rows:
        return torch.cat([part.forward(x) for part in self._operators()], 1)

    def adjoint(self, z: Rows) -> Vectors:
        parts = zip(self._operators(), z.split(self._heights(), 1), strict=True)
        images = [part.adjoint(rows) for part, rows in parts]
        return torch.stack(images).sum(0)

    def column_squares(self, weights: Rows) -> Vectors:
        """The sum over the operators."""
        parts = zip(self._operators(), weights.split(self._heights(), 1), strict=True)
        return torch.stack([part.column_squares(rows) for part, rows in parts]).sum(0)

    def _heights(self) -> list[int]:
        return [part.shape[0] for part in self._operators()]
