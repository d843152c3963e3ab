"""What random problems are made of."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from exact import LD, LOGISTIC, SQUARES, Exact, as_long

from sureprox.problems import Problem

Made = tuple[Problem, list[Exact]]


@dataclass(frozen=True)
class Data:
    """What a kind of problem is made of: all of the batch's precision, as arrays."""

    A: np.ndarray  # (B, m, n), or (m, n) shared
    b: np.ndarray  # (B, m)
    y: np.ndarray  # (B, m) labels
    ratio: np.ndarray  # (B,) lam as a part of lam_max
    chance: np.random.Generator

    def tensor(self, value: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(value.astype(self.A.dtype)))

    @property
    def parts(self) -> tuple[int, int, int]:
        return len(self.b), self.A.shape[-2], self.A.shape[-1]

    def lam(self, slope: np.ndarray) -> np.ndarray:
        """ratio * max_j |A'slope|_j in the precision of the data, slope (B, m)."""
        g = np.einsum("...mn,...m->...n", self.A.astype(LD), slope.astype(LD))
        return np.minimum(self.ratio * np.abs(g).max(1), np.finfo(self.A.dtype).max / 100).astype(self.A.dtype)

    def exact(self, logistic: bool = False, weights: np.ndarray | None = None, **penalty: Any) -> list[Exact]:
        """The truths, with penalties w, mu, low, high that broadcast to (B, n); `weights` (B, m) of the rows."""
        B, m, n = self.parts
        count = np.ones((B, m)) if weights is None else weights
        c = as_long(count) / m if logistic else as_long(count)
        terms = {"w": 0.0, "mu": 0.0, "low": -np.inf, "high": np.inf} | penalty
        r = {name: np.broadcast_to(as_long(value), (B, n)) for name, value in terms.items()}
        A = np.broadcast_to(as_long(self.A), (B, m, n))
        s = 1 - 2 * as_long(self.y) if logistic else np.ones((B, m), LD)
        b = np.zeros((B, m), LD) if logistic else as_long(self.b)
        phi = LOGISTIC if logistic else SQUARES
        return [Exact(A[i], b[i], c[i], s[i], phi, **{k: v[i] for k, v in r.items()}) for i in range(B)]
