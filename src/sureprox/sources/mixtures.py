"""The problems that Sure is trained on: many kinds at once, with ranges of their own.

What they do not contain is kept out on purpose, so that the battery can say what happens there
(`sureprox.evaluation.battery_kinds`).
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from sureprox.base.errors import InputError
from sureprox.problems.losses import LeastSquares, Logistic
from sureprox.problems.penalties import L1, Separable
from sureprox.problems.problem import Problem
from sureprox.sources import designs as make


@dataclass(frozen=True)
class _Mixture:
    m: int
    n: int

    reach: ClassVar[float]  # starts are moved by up to 10^reach

    def __post_init__(self) -> None:
        if min(self.m, self.n) < 4:
            raise InputError(f"impossible mixture {self}; need m, n >= 4")

    def start(self, batch: int, generator: torch.Generator, dtype: torch.dtype = torch.float32) -> Tensor:
        """15 % zero, 45 % normal, 40 % normal and moved by +-10^U(0, reach) on every coordinate."""
        kind, sign, size = make.uniform(generator, 3, batch, 1, dtype=dtype).unbind(0)
        move = torch.where(kind > 0.6, torch.sign(sign - 0.5) * 10 ** (self.reach * size), 0.0)
        return torch.where(kind < 0.15, 0.0, make.normal(generator, batch, self.n, dtype=dtype) + move)

    def _range(self, generator: torch.Generator, batch: int, low: float, high: float, dtype: torch.dtype) -> Tensor:
        return low + (high - low) * make.uniform(generator, batch, 1, dtype=dtype)

    def _signal(self, generator: torch.Generator, batch: int, dtype: torch.dtype) -> Tensor:
        """2 to 30 % nonzeros, as many small shares as large ones."""
        share = 10 ** self._range(generator, batch, -1.7, -0.52, dtype)
        return make.sparse_signal(generator, batch, self.n, (self.n * share).ceil()).to(dtype)

    def _rows(self, generator: torch.Generator, batch: int, fewest: float, dtype: torch.dtype) -> Tensor:
        """How many rows count, up to m; log-uniform, so that as many problems are wide as tall."""
        return self._range(generator, batch, math.log(min(fewest, self.m)), math.log(self.m), dtype).exp().floor()

    def _noise(self, generator: torch.Generator, clean: Tensor, largest: float) -> Tensor:
        """Half of the instances: 10^-2 to 10^largest times the root mean square of `clean`."""
        batch, dtype = len(clean), clean.dtype
        size = 10 ** self._range(generator, batch, -2.0, largest, dtype) * clean.square().mean(1, keepdim=True).sqrt()
        noisy = make.uniform(generator, batch, 1, dtype=dtype) < 0.5
        return torch.where(noisy, size, 0.0) * make.normal(generator, *clean.shape, dtype=dtype)


@dataclass(frozen=True)
class LassoMixture(_Mixture):
    """40 % normal entries, 35 % AR(0.2 to 0.95) columns, 15 % AR(0.5 to 0.95) rows, 10 % with a rank-one factor.

    Unit columns; n/5 to m rows that are not zero, as many problems wide as tall; 2 to 30 % nonzeros in x_true; half
    with noise; lam = 10^U(-2, -0.2) lam_max / 3.
    """

    name: ClassVar[str] = "sure-lasso"
    reach: ClassVar[float] = 2.0
    m: int = 512
    n: int = 256

    def sample(self, batch: int, generator: torch.Generator, dtype: torch.dtype = torch.float32) -> Problem:
        kind = make.uniform(generator, batch, 1, dtype=dtype)
        columns = torch.where((kind >= 0.4) & (kind < 0.75), self._range(generator, batch, 0.2, 0.95, dtype), 0.0)
        rows = torch.where((kind >= 0.75) & (kind < 0.9), self._range(generator, batch, 0.5, 0.95, dtype), 0.0)
        factor = torch.where(kind >= 0.9, self._range(generator, batch, 0.0, 1.0, dtype), 0.0)
        A = make.autoregressive(make.normal(generator, batch, self.m, self.n, dtype=dtype), columns)
        A = make.autoregressive(A.mT, rows).mT
        A = A + factor.unsqueeze(2) * _rank_one(generator, batch, self.m, self.n, dtype)
        present = torch.arange(self.m, device=A.device) < self._rows(generator, batch, 0.2 * self.n, dtype)
        A = make.unit_columns(A * present.unsqueeze(2)).contiguous()
        clean = torch.bmm(A, self._signal(generator, batch, dtype).unsqueeze(2)).squeeze(2)
        b = clean + self._noise(generator, clean, 0.1) * present
        share = 10 ** self._range(generator, batch, -2.0, -0.2, dtype).squeeze(1) / 3
        return Problem(LeastSquares.trusted(A=A, b=b), L1.trusted(lam=share * make.lasso_lam_max(A, b)))


@dataclass(frozen=True)
class LogisticMixture(_Mixture):
    """40 % normal entries, 40 % AR(0.2 to 0.95) columns, 20 % with a rank-one factor.

    n/2 to m different rows, the others repeat them; 2 to 30 % nonzeros in x_true; y = 1[A x_true + noise >= offset],
    half with noise, from little to five times A x_true, a quarter with an offset that makes ones rare or frequent;
    lam = 10^U(-2, -0.2) lam_max. L is the sharp one.
    """

    name: ClassVar[str] = "sure-logistic"
    reach: ClassVar[float] = 1.3
    m: int = 768
    n: int = 64

    def sample(self, batch: int, generator: torch.Generator, dtype: torch.dtype = torch.float32) -> Problem:
        kind = make.uniform(generator, batch, 1, dtype=dtype)
        columns = torch.where((kind >= 0.4) & (kind < 0.8), self._range(generator, batch, 0.2, 0.95, dtype), 0.0)
        factor = torch.where(kind >= 0.8, self._range(generator, batch, 0.0, 1.0, dtype), 0.0)
        A = make.autoregressive(make.normal(generator, batch, self.m, self.n, dtype=dtype), columns)
        A = A + factor.unsqueeze(2) * _rank_one(generator, batch, self.m, self.n, dtype)
        clean = torch.bmm(A, self._signal(generator, batch, dtype).unsqueeze(2)).squeeze(2)
        margin = clean + self._noise(generator, clean, 0.7)
        offset = self._range(generator, batch, -2.0, 2.0, dtype) * margin.square().mean(1, keepdim=True).sqrt()
        y = (margin >= torch.where(make.uniform(generator, batch, 1, dtype=dtype) < 0.25, offset, 0.0)).to(dtype)
        row = torch.arange(self.m, device=A.device) % self._rows(generator, batch, self.n / 2, dtype).long()
        A = A.gather(1, row.unsqueeze(2).expand_as(A)).contiguous()
        y = y.gather(1, row)
        share = 10 ** self._range(generator, batch, -2.0, -0.2, dtype).squeeze(1)
        lam = share * make.logistic_lam_max(A, y)
        return Problem(Logistic.trusted(A=A, y=y, curvature=0.25), L1.trusted(lam=lam))


@dataclass(frozen=True)
class SeparableMixture(_Mixture):
    """The matrices and signals of `LassoMixture`, each instance with a penalty of its own kind.

    l1 in all, and in a quarter each: nothing else; l2 = 10^U(-3, 0), an elastic net; x >= 0, and x_true too; |x_j| at
    most half of the largest |x_true|. All are one batch with one `Separable`.
    """

    name: ClassVar[str] = "separable"
    reach: ClassVar[float] = 2.0
    m: int = 512
    n: int = 256

    def sample(self, batch: int, generator: torch.Generator, dtype: torch.dtype = torch.float32) -> Problem:
        kind = (4 * make.uniform(generator, batch, dtype=dtype)).floor()
        A = make.autoregressive(
            make.normal(generator, batch, self.m, self.n, dtype=dtype),
            torch.where(make.uniform(generator, batch, 1, dtype=dtype) < 0.5, 0.0, 0.7),
        )
        A = make.unit_columns(A).contiguous()
        truth = self._signal(generator, batch, dtype)
        truth = torch.where((kind == 2).unsqueeze(1), truth.abs(), truth)
        clean = torch.bmm(A, truth.unsqueeze(2)).squeeze(2)
        b = clean + self._noise(generator, clean, -0.5)
        share = 10 ** self._range(generator, batch, -2.0, -0.2, dtype).squeeze(1) / 3
        l2 = 10 ** self._range(generator, batch, -3.0, 0.0, dtype).squeeze(1)
        reach = truth.abs().amax(1) / 2
        penalty = Separable(
            l1=share * make.lasso_lam_max(A, b),
            l2=torch.where(kind == 1, l2, 0.0),
            low=torch.where(kind == 2, 0.0, torch.where(kind == 3, -reach, -torch.inf)),
            high=torch.where(kind == 3, reach, torch.inf),
        )
        return Problem(LeastSquares.trusted(A=A, b=b), penalty)


def _rank_one(generator: torch.Generator, batch: int, m: int, n: int, dtype: torch.dtype) -> Tensor:
    return make.normal(generator, batch, m, 1, dtype=dtype) * make.normal(generator, batch, 1, n, dtype=dtype)
