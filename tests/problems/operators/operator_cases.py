"""One small operator of each kind, with the matrix that it stands for, made in another way."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from helpers import F64, normal
from sureprox.problems import operators as ops

Case = tuple[ops.Operator, np.ndarray]

DENSE = normal(6, 8, seed=1)
OWN = normal(3, 6, 8, seed=2)
MASK = np.random.default_rng(0).random(9) > 0.5
MASK_2D = np.random.default_rng(1).random((4, 5)) > 0.6


def sparse() -> Any:
    """A matrix of SciPy, which a machine with a GPU need not have."""
    return pytest.importorskip("scipy.sparse").random(12, 9, 0.3, random_state=0, format="csr")


def by_columns(function: Callable[[np.ndarray], np.ndarray], n: int) -> np.ndarray:
    """The matrix of a linear function of numpy."""
    return np.stack([function(unit) for unit in np.eye(n)], 1)


def convolved(kernel: torch.Tensor, size: int, boundary: str) -> Case:
    def same(x: np.ndarray) -> np.ndarray:
        if boundary == "zero":
            return np.convolve(x, kernel, "same")
        return np.convolve(np.tile(x, 3), kernel, "same")[size : 2 * size]

    return ops.Convolution(kernel, size, boundary), by_columns(same, size)


def convolved_2d(kernel: torch.Tensor, size: tuple[int, int], boundary: str) -> Case:
    """ndimage has its centre at K // 2; ours is one earlier for even K."""
    ndimage = pytest.importorskip("scipy.ndimage")
    mode = {"zero": "constant", "circular": "wrap"}[boundary]
    origin = [-1 if length % 2 == 0 else 0 for length in kernel.shape]
    matrix = by_columns(
        lambda x: ndimage.convolve(x.reshape(size), kernel.numpy(), mode=mode, origin=origin).ravel(),
        size[0] * size[1],
    )
    return ops.Convolution(kernel, size, boundary), matrix


def forward_differences(n: int) -> np.ndarray:
    return np.diff(np.eye(n), axis=0)


def differences(h: int, w: int) -> np.ndarray:
    return np.vstack([np.kron(forward_differences(h), np.eye(w)), np.kron(np.eye(h), forward_differences(w))])


def haar_step(n: int) -> np.ndarray:
    """One level, by hand."""
    W = np.zeros((n, n))
    for i in range(n // 2):
        W[i, 2 * i] = W[i, 2 * i + 1] = W[n // 2 + i, 2 * i] = 0.5**0.5
        W[n // 2 + i, 2 * i + 1] = -(0.5**0.5)
    return W


def haar(n: int, levels: int) -> np.ndarray:
    W = np.eye(n)
    for level in range(levels):
        step = np.eye(n)
        step[: n >> level, : n >> level] = haar_step(n >> level)
        W = step @ W
    return W


def haar_2d(h: int, w: int, levels: int) -> np.ndarray:
    W = np.eye(h * w)
    for level in range(levels):
        rows, columns = h >> level, w >> level
        places = (np.arange(rows)[:, None] * w + np.arange(columns)).ravel()
        step = np.eye(h * w)
        step[np.ix_(places, places)] = np.kron(haar_step(rows), haar_step(columns))
        W = step @ W
    return W


def fourier(mask: np.ndarray) -> Case:
    def kept(x: np.ndarray) -> np.ndarray:
        y = np.fft.fftn(x.reshape(mask.shape), norm="ortho")[mask]
        return np.stack([y.real, y.imag], 1).ravel()

    return ops.MaskedFourier(mask), by_columns(kept, mask.size)


def standardized(A: np.ndarray) -> np.ndarray:
    return (A - A.mean(0)) / A.std(0)


def function() -> Case:
    return ops.Function(lambda x: x @ DENSE.to(x).T, lambda z: z @ DENSE.to(z), (6, 8)), DENSE.numpy()


CASES: dict[str, Callable[[], Case]] = {
    "dense": lambda: (ops.Dense(DENSE), DENSE.numpy()),
    "own": lambda: (ops.Dense(OWN), OWN.numpy()),
    "sparse": lambda: (ops.Sparse(sparse()), sparse().toarray()),
    "sparse csr": lambda: (ops.Sparse(torch.from_numpy(sparse().toarray()).to_sparse()), sparse().toarray()),
    "circular": lambda: convolved(normal(3), 9, "circular"),
    "circular, even": lambda: convolved(normal(4), 10, "circular"),
    "zero": lambda: convolved(normal(3), 9, "zero"),
    "zero, even": lambda: convolved(normal(4), 7, "zero"),
    "circular 2-D": lambda: convolved_2d(normal(3, 2), (5, 6), "circular"),
    "zero 2-D": lambda: convolved_2d(normal(4, 3), (6, 5), "zero"),
    "difference": lambda: (ops.Difference(7), forward_differences(7)),
    "difference 2-D": lambda: (ops.Difference((4, 5)), differences(4, 5)),
    "difference of a row": lambda: (ops.Difference((1, 6)), differences(1, 6)),
    "haar": lambda: (ops.Haar(16), haar(16, 4)),
    "haar, 2 levels": lambda: (ops.Haar(12, levels=2), haar(12, 2)),
    "haar 2-D": lambda: (ops.Haar((8, 4)), haar_2d(8, 4, 2)),
    "haar 2-D, 1 level": lambda: (ops.Haar((4, 6), levels=1), haar_2d(4, 6, 1)),
    "haar, from coefficients": lambda: (ops.Haar(8).T, haar(8, 3).T),
    "fourier": lambda: fourier(MASK),
    "fourier 2-D": lambda: fourier(MASK_2D),
    "compose": lambda: (ops.Compose(DENSE, ops.Haar(8).T), DENSE.numpy() @ haar(8, 3).T),
    "compose three": lambda: (
        ops.Compose(ops.Difference(6), OWN, ops.Haar(8)),
        forward_differences(6) @ OWN.numpy() @ haar(8, 3),
    ),
    "stack": lambda: (
        ops.Stack(DENSE, ops.Difference(8), OWN),
        np.stack([np.vstack([DENSE, forward_differences(8), A]) for A in OWN.numpy()]),
    ),
    "standardized": lambda: (ops.Standardized(DENSE), standardized(DENSE.numpy())),
    "standardized, own": lambda: (ops.Standardized(OWN), np.stack([standardized(A) for A in OWN.numpy()])),
    "standardized, sparse": lambda: (ops.Standardized(sparse()), standardized(sparse().toarray())),
    "standardized, own numbers": lambda: (
        ops.Standardized(DENSE, normal(3, 8, seed=3), 1 + normal(3, 8, seed=4).square()),
        np.stack(
            [
                (DENSE.numpy() - c) / s
                for c, s in zip(normal(3, 8, seed=3).numpy(), (1 + normal(3, 8, seed=4).square()).numpy(), strict=True)
            ]
        ),
    ),
    "function": function,
}


def made(name: str, dtype: torch.dtype = F64) -> tuple[ops.Operator, torch.Tensor]:
    """The operator and its matrix, (m, n) or (3, m, n), in float64."""
    operator, matrix = CASES[name]()
    return operator.to(dtype=dtype), torch.from_numpy(matrix)
