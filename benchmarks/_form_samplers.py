"""Problems of many forms that no training has seen as such: samplers of (chance, count), float64, for benchmarks."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from sureprox.problems import Huber, LeastSquares, Logistic, Problem, Quantile, Softmax, SquaredHinge
from sureprox.problems.operators import Compose, Convolution, Haar
from sureprox.problems.penalties import L1, Box, ElasticNet, NonNegative, Penalty, Separable, WeightedL1
from sureprox.sources import designs as make

F64 = torch.float64
Chance = torch.Generator


def matrix(chance: Chance, count: int, m: int, n: int, rho: float = 0.0) -> Tensor:
    A = make.normal(chance, count, m, n)
    return make.unit_columns(make.autoregressive(A, rho) if rho else A)


def clean(chance: Chance, A: Tensor, nonzeros: int, positive: bool = False) -> Tensor:
    truth = make.sparse_signal(chance, len(A), A.shape[2], nonzeros)
    return torch.bmm(A, (truth.abs() if positive else truth).unsqueeze(2)).squeeze(2)


def noisy(chance: Chance, z: Tensor, size: float = 0.1) -> Tensor:
    return z + size * z.square().mean(1, keepdim=True).sqrt() * make.normal(chance, *z.shape)


def share(f: Any, size: float) -> Tensor:
    """So much of the largest l1, (B,)."""
    most: Tensor = f.grad(torch.zeros(*f.shape, dtype=F64)).abs().amax(1)
    return size * most


def binary(chance: Chance, A: Tensor, nonzeros: int) -> Tensor:
    """Labels, one with probability sigma(3 z / rms), z = A x_true."""
    z = clean(chance, A, nonzeros)
    rms = z.square().mean(1, keepdim=True).sqrt()
    return (make.uniform(chance, *z.shape) < torch.sigmoid(3 * z / rms)).double()


def _weighted(chance: Chance, count: int) -> Problem:
    A = matrix(chance, count, 100, 200)
    f = LeastSquares(A, noisy(chance, clean(chance, A, 20)))
    weights = share(f, 0.05).unsqueeze(1) * (0.5 + make.uniform(chance, count, 200))
    weights[:, 0] = 0.0
    return Problem(f, WeightedL1(weights))


def _ridge(chance: Chance, count: int) -> Problem:
    A = make.normal(chance, count, 150, 60) * torch.logspace(0, -1.5, 60, dtype=F64)
    f = LeastSquares(A, noisy(chance, clean(chance, A, 60)))
    return Problem(f, Separable(l2=1e-4 * f.lipschitz()))


def _nnls(chance: Chance, count: int) -> Problem:
    A = matrix(chance, count, 250, 125, 0.9)
    return Problem(LeastSquares(A, noisy(chance, clean(chance, A, 40, positive=True))), NonNegative())


def _logistic(r: Callable[[Any], Penalty], chance: Chance, count: int) -> Problem:
    A = matrix(chance, count, 250, 60)
    f = Logistic(A, binary(chance, A, 10))
    return Problem(f, r(f))


def _hinge(chance: Chance, count: int) -> Problem:
    A = matrix(chance, count, 200, 80)
    f = SquaredHinge(A, binary(chance, A, 10))
    return Problem(f, L1(share(f, 0.05)))


def _quantile(chance: Chance, count: int) -> Problem:
    A = matrix(chance, count, 200, 80)
    f = Quantile(A, noisy(chance, clean(chance, A, 10), 0.5), 0.8, 0.05)
    return Problem(f, L1(share(f, 0.05)))


def _huber(chance: Chance, count: int) -> Problem:
    A = matrix(chance, count, 200, 80)
    f = Huber(A, noisy(chance, clean(chance, A, 20, positive=True), 0.5), 0.2)
    return Problem(f, NonNegative(share(f, 0.02)))


def _softmax(chance: Chance, count: int) -> Problem:
    A = matrix(chance, count, 150, 40)
    z = torch.stack([clean(chance, A, 10) for _ in range(4)], 2)
    y = (z + 0.2 * make.normal(chance, *z.shape)).argmax(2)
    f = Softmax(A, y.double(), 4)
    return Problem(f, L1(share(f, 0.05)))


def _synthesis(chance: Chance, count: int) -> Problem:
    """Total variation of a signal, by its jumps."""
    A = torch.tril(torch.ones(80, 80, dtype=F64))
    jumps = make.sparse_signal(chance, count, 80, 6)
    f = LeastSquares(A, noisy(chance, jumps @ A.mT))
    return Problem(f, L1(share(f, 0.02)))


def _dual(chance: Chance, count: int) -> Problem:
    """Total variation by its dual: a box."""
    D = torch.eye(200, dtype=F64) - torch.diag(torch.ones(199, dtype=F64), -1)
    signal = make.sparse_signal(chance, count, 200, 8).cumsum(1)
    return Problem(
        LeastSquares(D[:, :199].contiguous(), signal + 0.2 * make.normal(chance, count, 200)), Box(-0.5, 0.5)
    )


def _deblurring(chance: Chance, count: int) -> Problem:
    """A blurred image, sparse in Haar's basis, by operators alone."""
    place = torch.arange(-4, 5, dtype=F64)
    kernel = torch.exp(-(place**2) / 4)
    A = Compose(Convolution(torch.outer(kernel, kernel) / kernel.sum() ** 2, (32, 32)), Haar((32, 32)).T)
    truth = make.sparse_signal(chance, count, 1024, 60)
    f = LeastSquares(A, noisy(chance, A.forward(truth), 0.02))
    return Problem(f, L1(share(f, 0.005)))


MORE: dict[str, Callable[[Chance, int], Problem]] = {
    "weighted-l1": _weighted,
    "ridge": _ridge,
    "nnls-correlated": _nnls,
    "logistic-l2": partial(_logistic, lambda f: Separable(l2=1e-3 * f.lipschitz())),
    "logistic-elastic-net": partial(_logistic, lambda f: ElasticNet(share(f, 0.02), 1e-3 * f.lipschitz())),
    "logistic-box": partial(_logistic, lambda f: Box(-1.0, 1.0)),
    "squared-hinge": _hinge,
    "quantile": _quantile,
    "huber-nonnegative": _huber,
    "softmax": _softmax,
    "tv-synthesis": _synthesis,
    "tv-dual": _dual,
    "deblurring": _deblurring,
}
