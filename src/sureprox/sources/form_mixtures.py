"""The problems that the general Sure is trained on: squares, logistic and Huber with l1, l2 and bounds.

Softmax, Poisson, quantiles, hinges, groups, sparse matrices and operators are kept out.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from sureprox.base.types import Rows, Scalars, Vectors
from sureprox.problems.losses import Huber, LeastSquares, Logistic
from sureprox.problems.penalties import Separable
from sureprox.problems.problem import Problem
from sureprox.problems.smooth import LinearModel
from sureprox.sources import designs as make
from sureprox.sources.families import Family
from sureprox.sources.mixtures import _Mixture, _rank_one

DECADES = 3.0  # over which the columns, or the singular values, of a fifth of the matrices are spread


@dataclass(frozen=True)
class _FormMixture(_Mixture):
    """Of one loss; each instance has its own design, signal, noise and penalty.

    A: 30 % normal entries, 25 % AR(0.2 to 0.95) columns, 15 % AR(0.5 to 0.95) rows, 10 % with a rank-one factor, all
    with unit columns; 20 % with columns over up to three decades, in two thirds mixed by an orthogonal matrix. n/5 to m
    rows count, as many problems wide as tall. 2 to 100 % nonzeros in x_true; three fifths with noise.

    r: l1 = 10^U(-2.3, -0.3) of its largest value in three quarters; l2 = 10^U(-4.5, -1) L in three tenths, and wherever
    there would be neither l1 nor bounds; x >= 0 in a quarter, a third of them with an upper bound too; |x| <= bound in
    15 %.
    """

    reach: ClassVar[float] = 2.0

    @abstractmethod
    def loss(self, A: Tensor, clean: Rows, present: Tensor, generator: torch.Generator) -> LinearModel:
        """f from A (B, m, n), `clean` = A x_true and which rows count."""

    def sample(self, batch: int, generator: torch.Generator, dtype: torch.dtype = torch.float32) -> Problem:
        rows = torch.arange(self.m, device=generator.device)
        present = rows < self._rows(generator, batch, 0.2 * self.n, dtype)
        A = self._design(generator, batch, present, dtype)
        share = 10 ** self._range(generator, batch, math.log10(0.02), 0.0, dtype)
        truth = make.sparse_signal(generator, batch, self.n, (self.n * share).ceil()).to(dtype)
        sides = make.uniform(generator, batch, dtype=dtype)  # below 0.25: x >= 0; below 0.4: some upper bound
        truth = torch.where((sides < 0.25).unsqueeze(1), truth.abs(), truth)
        f = self.loss(A, torch.bmm(A, truth.unsqueeze(2)).squeeze(2), present, generator)
        return Problem(f, self._penalty(f, truth, sides, generator, dtype))

    def start(self, batch: int, generator: torch.Generator, dtype: torch.dtype = torch.float32) -> Tensor:
        """40 % zero, 35 % normal, 25 % normal and moved by +-10^U(0, 2) on every coordinate."""
        kind, sign, size = make.uniform(generator, 3, batch, 1, dtype=dtype).unbind(0)
        move = torch.where(kind > 0.75, torch.sign(sign - 0.5) * 10 ** (self.reach * size), 0.0)
        return torch.where(kind < 0.4, 0.0, make.normal(generator, batch, self.n, dtype=dtype) + move)

    def _design(self, generator: torch.Generator, batch: int, present: Tensor, dtype: torch.dtype) -> Tensor:
        kind = make.uniform(generator, batch, 1, dtype=dtype)
        columns = torch.where((kind >= 0.3) & (kind < 0.55), self._range(generator, batch, 0.2, 0.95, dtype), 0.0)
        rows = torch.where((kind >= 0.55) & (kind < 0.7), self._range(generator, batch, 0.5, 0.95, dtype), 0.0)
        factor = torch.where((kind >= 0.7) & (kind < 0.8), self._range(generator, batch, 0.0, 1.0, dtype), 0.0)
        A = make.autoregressive(make.normal(generator, batch, self.m, self.n, dtype=dtype), columns)
        A = make.autoregressive(A.mT, rows).mT
        A = A + factor.unsqueeze(2) * _rank_one(generator, batch, self.m, self.n, dtype)
        A = make.unit_columns(A * present.unsqueeze(2))
        uneven, mixed = (kind >= 0.8).unsqueeze(2), (kind >= 0.8 + 0.2 / 3).unsqueeze(2)
        decades = self._range(generator, batch, 0.0, DECADES, dtype) * make.uniform(
            generator, batch, self.n, dtype=dtype
        )
        scaled = A * 10 ** -decades.unsqueeze(1)
        basis = torch.linalg.qr(make.normal(generator, batch, self.n, self.n, dtype=dtype))[0]
        A = torch.where(uneven, torch.where(mixed, torch.bmm(scaled, basis), scaled), A)
        size: Tensor = torch.linalg.matrix_norm(A, keepdim=True)
        sized: Tensor = A * (self.n**0.5 / size)
        return sized.contiguous()

    def _penalty(
        self, f: LinearModel, truth: Vectors, sides: Scalars, generator: torch.Generator, dtype: torch.dtype
    ) -> Separable:
        batch = len(truth)
        some = make.uniform(generator, 2, batch, dtype=dtype)
        lasso, bounded = some[0] < 0.75, sides < 0.4
        square = (some[1] < 0.3) | ~(lasso | bounded)
        most = f.grad(torch.zeros_like(truth)).abs().amax(1)
        l1 = 10 ** self._range(generator, batch, -2.3, -0.3, dtype).squeeze(1) * most
        l2 = 10 ** self._range(generator, batch, -4.5, -1.0, dtype).squeeze(1) * f.lipschitz()
        typical = truth.square().sum(1) / (truth != 0).sum(1)
        bound = 10 ** self._range(generator, batch, -1.0, 0.3, dtype).squeeze(1) * typical.sqrt()
        capped = (sides < 0.25 / 3) | ((sides >= 0.25) & bounded)
        return Separable.trusted(
            l1=torch.where(lasso, l1, 0.0),
            l2=torch.where(square, l2, 0.0),
            low=torch.where(sides < 0.25, 0.0, torch.where(bounded, -bound, -torch.inf)),
            high=torch.where(capped, bound, torch.inf),
            placed=True,
        )

    def _noisy(self, generator: torch.Generator, clean: Rows, present: Tensor) -> tuple[Rows, Scalars]:
        """Three fifths with noise of 10^-2 to 10^0.1 times the root mean square of `clean`, and that, (B, 1)."""
        batch, dtype = len(clean), clean.dtype
        rms = (clean.square().sum(1, keepdim=True) / present.sum(1, keepdim=True)).sqrt()
        size = 10 ** self._range(generator, batch, -2.0, 0.1, dtype) * rms
        some = make.uniform(generator, batch, 1, dtype=dtype) < 0.6
        return clean + torch.where(some, size, 0.0) * make.normal(generator, *clean.shape, dtype=dtype) * present, rms


class SquaresForms(_FormMixture):
    """1/2 |A x - b|^2 + r."""

    def loss(self, A: Tensor, clean: Rows, present: Tensor, generator: torch.Generator) -> LinearModel:
        return LeastSquares.trusted(A=A, b=self._noisy(generator, clean, present)[0])


class HuberForms(_FormMixture):
    """Huber's loss, delta = 10^U(-1.5, 0) times the size of b, with a tenth of the rows far off, + r.

    A and b over delta are the same problem with delta = 1.
    """

    def loss(self, A: Tensor, clean: Rows, present: Tensor, generator: torch.Generator) -> LinearModel:
        b, rms = self._noisy(generator, clean, present)
        far = (make.uniform(generator, *b.shape, dtype=b.dtype) < 0.1) & present
        b = b + torch.where(far, 10 * rms * make.normal(generator, *b.shape, dtype=b.dtype), 0.0)
        delta = 10 ** self._range(generator, len(b), -1.5, 0.0, b.dtype) * rms
        return Huber(A / delta.unsqueeze(2), b / delta)


class LogisticForms(_FormMixture):
    """The mean logistic loss, y one with probability sigma(c A x_true / rms), c = 10^U(-0.5, 1), + r.

    The rows that count are repeated.
    """

    def loss(self, A: Tensor, clean: Rows, present: Tensor, generator: torch.Generator) -> LinearModel:
        rms = (clean.square().sum(1, keepdim=True) / present.sum(1, keepdim=True)).sqrt()
        slope = 10 ** self._range(generator, len(A), -0.5, 1.0, A.dtype) / rms
        y = (make.uniform(generator, *clean.shape, dtype=A.dtype) < torch.sigmoid(slope * clean)).to(A.dtype)
        row = torch.arange(self.m, device=A.device) % present.sum(1, keepdim=True)
        A = A.gather(1, row.unsqueeze(2).expand_as(A)).contiguous()
        return Logistic.trusted(A=A, y=y.gather(1, row), curvature=0.25)


@dataclass(frozen=True)
class GeneralMixture(_Mixture):
    """Half squares, a quarter each logistic and Huber, of the designs, signals and penalties of one mixture.

    Problems of several losses cannot be one batch: `sample` draws a loss for all of it, and training takes the `parts`
    in turn.
    """

    name: ClassVar[str] = "sure-general"
    m: int = 240
    n: int = 80

    @property
    def parts(self) -> tuple[Family, ...]:
        squares = SquaresForms(self.m, self.n)
        return squares, LogisticForms(self.m, self.n), squares, HuberForms(self.m, self.n)

    def sample(self, batch: int, generator: torch.Generator, dtype: torch.dtype = torch.float32) -> Problem:
        which = int(torch.randint(len(self.parts), (), generator=generator, device=generator.device))
        return self.parts[which].sample(batch, generator, dtype)

    def start(self, batch: int, generator: torch.Generator, dtype: torch.dtype = torch.float32) -> Tensor:
        return self.parts[0].start(batch, generator, dtype)
