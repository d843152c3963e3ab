"""Smooth parts and penalties as a user writes them: without a duality gap, or as a subclass of what has one."""

import torch
from torch import Tensor
from torch.nn.functional import softplus

import sureprox as sp
from sureprox.problems import L1
from sureprox.problems.separable import soft_threshold


class OwnLeastSquares(sp.Smooth):
    """f(x) = 1/2 |A x - b|^2."""

    batched = ("A", "b")

    def __init__(self, A: Tensor, b: Tensor) -> None:
        self.A, self.b = A, b

    @property
    def shape(self) -> tuple[int, int]:
        return self.A.shape[0], self.A.shape[2]

    def _residual(self, x: Tensor) -> Tensor:
        return (self.A @ x.unsqueeze(2)).squeeze(2) - self.b

    def value(self, x: Tensor) -> Tensor:
        return 0.5 * self._residual(x).square().sum(1)

    def grad(self, x: Tensor) -> Tensor:
        return (self.A.mT @ self._residual(x).unsqueeze(2)).squeeze(2)

    def lipschitz(self, exact: bool = False) -> Tensor:
        return torch.linalg.matrix_norm(self.A, ord=2).square()


class OwnLogistic(sp.Smooth):
    """f(x) = mean_i log(1 + e^{z_i}), z = (1 - 2y) A x."""

    batched = ("A", "signs")

    def __init__(self, A: Tensor, y: Tensor) -> None:
        self.A, self.signs = A, 1 - 2 * y

    @property
    def shape(self) -> tuple[int, int]:
        return self.A.shape[0], self.A.shape[2]

    def _margin(self, x: Tensor) -> Tensor:
        return self.signs * (self.A @ x.unsqueeze(2)).squeeze(2)

    def value(self, x: Tensor) -> Tensor:
        return softplus(self._margin(x), threshold=40.0).mean(1)

    def grad(self, x: Tensor) -> Tensor:
        slope = self.signs * torch.sigmoid(self._margin(x)) / self.A.shape[1]
        return (self.A.mT @ slope.unsqueeze(2)).squeeze(2)

    def lipschitz(self, exact: bool = False) -> Tensor:
        return torch.linalg.matrix_norm(self.A, ord=2).square() / (4 * self.A.shape[1])


class Plain:
    """The same of no class that sureprox knows: an object with three methods and its tensors."""

    def __init__(self, part: OwnLeastSquares) -> None:
        self.A, self.b, self.n = part.A, part.b, part.shape[1]

    def _part(self) -> OwnLeastSquares:
        return OwnLeastSquares(self.A, self.b)

    def value(self, x: Tensor) -> Tensor:
        return self._part().value(x)

    def grad(self, x: Tensor) -> Tensor:
        return self._part().grad(x)

    def lipschitz(self) -> Tensor:
        return self._part().lipschitz()


class ElasticNet(sp.Penalty):
    """r(x) = lam |x|_1 + mu/2 |x|^2."""

    batched = ("lam", "mu")

    def __init__(self, lam: Tensor, mu: Tensor) -> None:
        self.lam, self.mu = lam, mu

    def value(self, x: Tensor) -> Tensor:
        return self.lam * x.abs().sum(1) + 0.5 * self.mu * x.square().sum(1)

    def prox(self, v: Tensor, step: Tensor) -> Tensor:
        return soft_threshold(v, self.lam.unsqueeze(1) * step) / (1 + self.mu.unsqueeze(1) * step)

    def subdiff(self, x: Tensor) -> tuple[Tensor, Tensor]:
        lam, slope = self.lam.unsqueeze(1), self.mu.unsqueeze(1) * x
        low = torch.where(x > 0, lam, -lam)
        high = torch.where(x < 0, -lam, lam)
        return slope + low, slope + high


class ElasticNetOfL1(L1):
    """The same as a subclass of L1 that says nothing about its dual."""

    batched = ("lam", "mu")

    def __init__(self, lam: Tensor, mu: Tensor) -> None:
        super().__init__(lam)
        self.mu = mu

    value = ElasticNet.value
    prox = ElasticNet.prox
    subdiff = ElasticNet.subdiff


class Box(sp.Penalty):
    """r(x) = 0 where low <= x <= high, infinite elsewhere."""

    batched = ("low", "high")

    def __init__(self, low: Tensor, high: Tensor) -> None:
        self.low, self.high = low, high

    def value(self, x: Tensor) -> Tensor:
        inside = ((x >= self.low) & (x <= self.high)).all(1)
        return torch.where(inside, 0.0, torch.inf).to(x.dtype)

    def prox(self, v: Tensor, step: Tensor) -> Tensor:
        return torch.minimum(torch.maximum(v, self.low), self.high)

    def subdiff(self, x: Tensor) -> tuple[Tensor, Tensor]:
        low = torch.where(x > self.low, 0.0, -torch.inf).to(x.dtype)
        return low, torch.where(x < self.high, 0.0, torch.inf).to(x.dtype)
