"""Families of the other forms of problem: other penalties, other losses, other operators."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from sureprox.base.errors import InputError
from sureprox.problems.losses import Huber, LeastSquares, Poisson
from sureprox.problems.operators import Convolution, Sparse
from sureprox.problems.penalties import L1, Box, ElasticNet, GroupL2, NonNegative
from sureprox.problems.problem import Problem
from sureprox.sources import designs as make
from sureprox.sources.families import Sized


@dataclass(frozen=True)
class _Squares(Sized):
    """A normal with unit columns, x_true sparse normal, b = A x_true + noise."""

    noise: float = 0.1

    def data(self, batch: int, generator: torch.Generator, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """A (batch, m, n) and b (batch, m)."""
        A = make.normal(generator, batch, self.m, self.n, dtype=dtype)
        A = A / torch.linalg.vector_norm(A, dim=1, keepdim=True)
        clean = torch.bmm(A, self.truth(batch, generator, dtype).unsqueeze(2)).squeeze(2)
        return A, clean + self.noise * make.normal(generator, batch, self.m, dtype=dtype)

    def truth(self, batch: int, generator: torch.Generator, dtype: torch.dtype) -> Tensor:
        """x_true."""
        return self._signal(batch, generator, dtype)


@dataclass(frozen=True)
class ElasticNetFamily(_Squares):
    """1/2 |A x - b|^2 + lam |x|_1 + l2/2 |x|^2."""

    name: ClassVar[str] = "elastic-net"
    m: int = 100
    n: int = 200
    nonzeros: int = 20
    lam: float = 0.1
    l2: float = 0.05

    def sample(self, batch: int, generator: torch.Generator, dtype: torch.dtype = torch.float32) -> Problem:
        return Problem(LeastSquares(*self.data(batch, generator, dtype)), ElasticNet(self.lam, self.l2))


@dataclass(frozen=True)
class NonNegativeFamily(_Squares):
    """1/2 |A x - b|^2 + lam sum_j x_j, x >= 0; A = |normal| with unit columns, x_true >= 0."""

    name: ClassVar[str] = "nonnegative"
    m: int = 200
    n: int = 100
    nonzeros: int = 20
    lam: float = 0.0

    def data(self, batch: int, generator: torch.Generator, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        A, _ = super().data(batch, generator, dtype)
        A = A.abs()
        clean = torch.bmm(A, self.truth(batch, generator, dtype).unsqueeze(2)).squeeze(2)
        return A, clean + self.noise * make.normal(generator, batch, self.m, dtype=dtype)

    def truth(self, batch: int, generator: torch.Generator, dtype: torch.dtype) -> Tensor:
        return super().truth(batch, generator, dtype).abs()

    def sample(self, batch: int, generator: torch.Generator, dtype: torch.dtype = torch.float32) -> Problem:
        return Problem(LeastSquares(*self.data(batch, generator, dtype)), NonNegative(self.lam))

    def start(self, batch: int, generator: torch.Generator, dtype: torch.dtype = torch.float32) -> Tensor:
        """|N(0, 1)|."""
        return super().start(batch, generator, dtype).abs()


@dataclass(frozen=True)
class BoxFamily(_Squares):
    """1/2 |A x - b|^2, |x_j| <= reach, which some of x_true exceed."""

    name: ClassVar[str] = "box"
    m: int = 200
    n: int = 100
    nonzeros: int = 50
    lam: float = 0.0
    reach: float = 0.5

    def sample(self, batch: int, generator: torch.Generator, dtype: torch.dtype = torch.float32) -> Problem:
        return Problem(LeastSquares(*self.data(batch, generator, dtype)), Box(-self.reach, self.reach))

    def start(self, batch: int, generator: torch.Generator, dtype: torch.dtype = torch.float32) -> Tensor:
        """N(0, 1), moved into the box."""
        return super().start(batch, generator, dtype).clamp(-self.reach, self.reach)


@dataclass(frozen=True)
class HuberFamily(_Squares):
    """Huber's loss of A x - b, with `outliers` of the rows far off, + lam |x|_1."""

    name: ClassVar[str] = "huber"
    m: int = 200
    n: int = 100
    nonzeros: int = 20
    lam: float = 0.5
    delta: float = 0.3
    outliers: float = 0.1

    def sample(self, batch: int, generator: torch.Generator, dtype: torch.dtype = torch.float32) -> Problem:
        A, b = self.data(batch, generator, dtype)
        far = torch.rand(b.shape, generator=generator, dtype=dtype, device=generator.device) < self.outliers
        b = b + torch.where(far, 10 * make.normal(generator, *b.shape, dtype=dtype), 0.0)
        return Problem(Huber(A, b, self.delta), L1(self.lam))


@dataclass(frozen=True)
class PoissonFamily(_Squares):
    """The Poisson loss with log link, counts of mean e^{A x_true + 1}, + lam |x|_1."""

    name: ClassVar[str] = "poisson"
    m: int = 200
    n: int = 100
    nonzeros: int = 20
    lam: float = 0.5

    def sample(self, batch: int, generator: torch.Generator, dtype: torch.dtype = torch.float32) -> Problem:
        A, z = self.data(batch, generator, dtype)
        y = torch.poisson((z + 1).clamp(max=5).exp(), generator=generator)
        return Problem(Poisson(A, y, offset=torch.ones_like(y)), L1(self.lam))

    def start(self, batch: int, generator: torch.Generator, dtype: torch.dtype = torch.float32) -> Tensor:
        """N(0, 1/100), since e^{A x} has no Lipschitz constant that holds far away."""
        return 0.1 * super().start(batch, generator, dtype)


@dataclass(frozen=True)
class GroupFamily(_Squares):
    """1/2 |A x - b|^2 + lam sum_g |x_g|, groups of `size` neighbours, of which x_true has few."""

    name: ClassVar[str] = "group"
    m: int = 100
    n: int = 200
    nonzeros: int = 20
    lam: float = 0.3
    size: int = 5

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.size < 1 or self.n % self.size:
            raise InputError(f"impossible family {self}; n must be a multiple of size")

    def truth(self, batch: int, generator: torch.Generator, dtype: torch.dtype) -> Tensor:
        groups = self.n // self.size
        rank = torch.rand(batch, groups, generator=generator, device=generator.device).argsort(1).argsort(1)
        chosen = (rank < -(-self.nonzeros // self.size)).repeat_interleave(self.size, 1)
        return make.normal(generator, batch, self.n, dtype=dtype) * chosen

    def sample(self, batch: int, generator: torch.Generator, dtype: torch.dtype = torch.float32) -> Problem:
        groups = torch.arange(self.n, device=generator.device) // self.size
        return Problem(LeastSquares(*self.data(batch, generator, dtype)), GroupL2(groups, self.lam))


@dataclass(frozen=True)
class SparseFamily(Sized):
    """1/2 |A x - b|^2 + lam |x|_1 with one sparse A for the batch, `density` of its entries normal."""

    name: ClassVar[str] = "sparse"
    m: int = 400
    n: int = 800
    nonzeros: int = 40
    lam: float = 0.1
    density: float = 0.02
    noise: float = 0.1

    def sample(self, batch: int, generator: torch.Generator, dtype: torch.dtype = torch.float32) -> Problem:
        each = max(1, round(self.density * self.m))  # entries of a column, so that none is empty
        rank = torch.rand(self.n, self.m, generator=generator, device=generator.device).argsort(1)
        rows = rank[:, :each].reshape(-1)
        columns = torch.arange(self.n, device=generator.device).repeat_interleave(each)
        values = make.normal(generator, self.n * each, dtype=dtype) / each**0.5
        shape = (self.m, self.n)
        A = Sparse(torch.sparse_coo_tensor(torch.stack([rows, columns]), values, shape, check_invariants=False))
        clean = A.forward(self._signal(batch, generator, dtype))
        noise = self.noise * make.normal(generator, batch, self.m, dtype=dtype)
        return Problem(LeastSquares(A, clean + noise), L1(self.lam))


@dataclass(frozen=True)
class DeconvolutionFamily(Sized):
    """1/2 |k * x - b|^2 + lam |x|_1: spikes seen through a Gaussian blur of `width`, with noise; m = n."""

    name: ClassVar[str] = "deconvolution"
    m: int = 256
    n: int = 256
    nonzeros: int = 12
    lam: float = 0.05
    width: float = 2.0
    noise: float = 0.02

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.m != self.n or not self.width > 0:
            raise InputError(f"impossible family {self}; need m = n and width > 0")

    def sample(self, batch: int, generator: torch.Generator, dtype: torch.dtype = torch.float32) -> Problem:
        reach = min(int(4 * self.width) + 1, (self.n - 1) // 2)
        place = torch.arange(-reach, reach + 1, dtype=dtype, device=generator.device)
        kernel = torch.exp(-((place / self.width) ** 2) / 2)
        A = Convolution(kernel / torch.linalg.vector_norm(kernel), self.n)
        clean = A.forward(self._signal(batch, generator, dtype))
        noise = self.noise * make.normal(generator, batch, self.m, dtype=dtype)
        return Problem(LeastSquares(A, clean + noise), L1(self.lam))


FORM_FAMILIES = (
    ElasticNetFamily,
    NonNegativeFamily,
    BoxFamily,
    HuberFamily,
    PoissonFamily,
    GroupFamily,
    SparseFamily,
    DeconvolutionFamily,
)
