"""Samplers of random problem batches: the distributions that the optimizers are trained and tested on."""

from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from sureprox.base.errors import InputError
from sureprox.problems.losses import LeastSquares, Logistic
from sureprox.problems.penalties import L1
from sureprox.problems.problem import Problem


class Family(Protocol):
    """A distribution over problems and starting points. All randomness comes from the generator."""

    @property
    def n(self) -> int: ...

    def sample(self, batch: int, generator: torch.Generator, dtype: torch.dtype = torch.float32) -> Problem:
        """`batch` random problems on the generator's device."""
        ...

    def start(self, batch: int, generator: torch.Generator, dtype: torch.dtype = torch.float32) -> Tensor:
        """`batch` random starting points (batch, n)."""
        ...


@dataclass(frozen=True)
class Sized:
    """A family of problems of m rows and n columns, whose signals have so many nonzeros."""

    m: int
    n: int
    nonzeros: int
    lam: float

    def __post_init__(self) -> None:
        if min(self.m, self.n) < 1 or not 0 <= self.nonzeros <= self.n or not self.lam >= 0:
            raise InputError(f"impossible family {self}; need m, n >= 1, 0 <= nonzeros <= n and lam >= 0")

    def start(self, batch: int, generator: torch.Generator, dtype: torch.dtype = torch.float32) -> Tensor:
        """Standard normal starting points."""
        return _normal(generator, dtype, batch, self.n)

    def _signal(self, batch: int, generator: torch.Generator, dtype: torch.dtype) -> Tensor:
        """Standard normal entries on a random support of exactly `nonzeros` coordinates."""
        values = _normal(generator, dtype, batch, self.n)
        order = torch.rand(batch, self.n, generator=generator, device=generator.device)
        rank = order.argsort(1).argsort(1)
        return values * (rank < self.nonzeros)


@dataclass(frozen=True)
class LassoFamily(Sized):
    """A normal with unit columns, x_true sparse normal, b = A x_true: the paper's LASSO problems."""

    name: ClassVar[str] = "lasso"
    m: int = 250
    n: int = 500
    nonzeros: int = 50
    lam: float = 0.1

    def sample(self, batch: int, generator: torch.Generator, dtype: torch.dtype = torch.float32) -> Problem:
        A = _normal(generator, dtype, batch, self.m, self.n)
        A = A / torch.linalg.vector_norm(A, dim=1, keepdim=True)
        f = LeastSquares.trusted(A=A, b=torch.bmm(A, self._signal(batch, generator, dtype).unsqueeze(2)).squeeze(2))
        return Problem(f, L1.trusted(lam=torch.full((batch,), self.lam, dtype=dtype, device=generator.device)))


@dataclass(frozen=True)
class AnyStartLasso(LassoFamily):
    """The paper's LASSO problems, from starts near and far.

    A quarter each: zero; standard normal; standard normal plus s on every coordinate, |s| uniform up to `near`, either
    sign; the same up to `far`. The kinds alternate, so that every batch has all of them.
    """

    name: ClassVar[str] = "lasso-any-start"
    near: float = 10.0
    far: float = 100.0

    def start(self, batch: int, generator: torch.Generator, dtype: torch.dtype = torch.float32) -> Tensor:
        x = _normal(generator, dtype, batch, self.n)
        shift = 2 * torch.rand(batch, 1, generator=generator, dtype=dtype, device=generator.device) - 1
        kind = (torch.arange(batch, device=generator.device) % 4).unsqueeze(1)
        size = torch.where(kind == 3, self.far, torch.where(kind == 2, self.near, 0.0)).to(dtype)
        return torch.where(kind == 0, torch.zeros_like(x), x + size * shift)


@dataclass(frozen=True)
class LogisticFamily(Sized):
    """A normal, x_true sparse normal, y = 1[A x_true >= 0]: the paper's logistic problems.

    `curvature` is 1 as in the paper (see `Logistic`).
    """

    name: ClassVar[str] = "logistic"
    m: int = 1000
    n: int = 50
    nonzeros: int = 20
    lam: float = 0.1
    curvature: float = 1.0

    def sample(self, batch: int, generator: torch.Generator, dtype: torch.dtype = torch.float32) -> Problem:
        A = _normal(generator, dtype, batch, self.m, self.n)
        margin = torch.bmm(A, self._signal(batch, generator, dtype).unsqueeze(2)).squeeze(2)
        f = Logistic.trusted(A=A, y=(margin >= 0).to(dtype), curvature=self.curvature)
        return Problem(f, L1.trusted(lam=torch.full((batch,), self.lam, dtype=dtype, device=generator.device)))


def _normal(generator: torch.Generator, dtype: torch.dtype, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=generator, dtype=dtype, device=generator.device)
