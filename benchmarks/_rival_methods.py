"""Two learned methods for one A, for comparison: HyperLISTA, and analytic LISTA under the safeguard of Safe-L2O.

Each yields x after 1, 2, ... iterations. `cost`: gradients an iteration; one is a product with A and one with A'.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from torch import Tensor

from sureprox.problems import Problem

LAYERS, EPOCHS = 20, 25


def analytic_weights(A: Tensor) -> Tensor:
    """W (m, n) that minimises |W' A| (Frobenius) subject to w_i' a_i = 1: w_i is along (A A')^-1 a_i."""
    W = torch.linalg.solve(A @ A.T, A)
    return W / (W * A).sum(0)


def shrunk(v: Tensor, threshold: Tensor) -> Tensor:
    return v.sign() * (v.abs() - threshold).clamp(min=0)


@dataclass(frozen=True)
class HyperLISTA:
    """x+ = S_p(x + W'(b - A x) + beta (x - x_before), theta): Chen, Liu, Wang and Yin (2021).

    theta = c1 |A^+ (A x - b)|_1, beta = c2 |x|_0, and the share p = c3 log(|A^+ b|_1 / |A^+ (A x - b)|_1) of the
    largest coordinates passes unshrunk where it exceeds theta. It looks for the signal behind b; lam plays no part.
    """

    A: Tensor
    W: Tensor
    inverse: Tensor
    c: tuple[float, float, float]
    cost = 1.5  # A^+ costs a product more

    def walk(self, problem: Problem, steps: int) -> Iterator[Tensor]:
        b = problem.f.b
        x = before = torch.zeros(problem.batch, problem.n, dtype=b.dtype)
        whole = (b @ self.inverse.T).abs().sum(1, keepdim=True)
        for _ in range(steps):
            residual = x @ self.A.T - b
            error = (residual @ self.inverse.T).abs().sum(1, keepdim=True).clamp(min=1e-300)
            z = x - residual @ self.W + self.c[1] * (x != 0).to(x).sum(1, keepdim=True) * (x - before)
            theta = self.c[0] * error
            share = (self.c[2] * (whole / error).log()).clamp(0, 1)
            place = ((1 - share) * (problem.n - 1)).round().long()
            passed = z.abs() >= torch.maximum(z.abs().sort(1).values.gather(1, place), theta)
            before, x = x, torch.where(passed & (share > 1e-9), z, shrunk(z, theta))
            yield x


def tuned_hyperlista(train: Problem, signals: Tensor, trials: int) -> HyperLISTA:
    """c1, c2, c3 with the smallest |x - signal|^2 after the layers: at random, then by Nelder and Mead."""
    A = train.f.A
    W, inverse = analytic_weights(A), torch.linalg.pinv(A)

    def loss(c: NDArray[np.float64]) -> float:
        *_, x = HyperLISTA(A, W, inverse, tuple(np.exp(c))).walk(train, LAYERS)
        error = float((x - signals).square().sum(1).mean().log())
        return error if math.isfinite(error) else 1e3

    random = np.random.default_rng(0)
    starts = np.log([0.01, 0.003, 0.3]) + random.uniform(-3, 3, (trials, 3))
    best = min(starts, key=loss)
    found = minimize(loss, best, method="Nelder-Mead", options={"maxfev": trials}).x
    return HyperLISTA(A, W, inverse, tuple(np.exp(found).tolist()))


@dataclass(frozen=True)
class SafeL2O:
    """y = S(x - gamma_k W'(A x - b), theta_k), taken where |y - T(y)| <= 0.99 mu_k, else T(x): Heaton et al. (2023).

    T is a step of ISTA; mu+ = |x+ - T(x+)|/4 + 3 mu/4 where that passes the test, else mu. After the layers T alone.
    """

    A: Tensor
    W: Tensor
    gamma: Tensor
    theta: Tensor
    L: float
    cost = 1.5  # W'(A x - b), and A'(A y - b) for the test; A y serves the next step too

    def layer(self, k: int, x: Tensor, b: Tensor) -> Tensor:
        return shrunk(x - self.gamma[k] * ((x @ self.A.T - b) @ self.W), self.theta[k])

    def walk(self, problem: Problem, steps: int) -> Iterator[Tensor]:
        b = problem.f.b
        step = torch.full((problem.batch, 1), 1 / self.L, dtype=b.dtype)

        def ista(x: Tensor) -> Tensor:
            return problem.proximal_step(x, step)

        def energy(x: Tensor) -> Tensor:
            return (x - ista(x)).norm(dim=1)

        x = torch.zeros(problem.batch, problem.n, dtype=b.dtype)
        mu = energy(x)
        for k in range(steps):
            if k < len(self.gamma):
                y = self.layer(k, x, b)
                x = torch.where((energy(y) <= 0.99 * mu).unsqueeze(1), y, ista(x))
                here = energy(x)
                mu = torch.where(here <= 0.99 * mu, 0.25 * here + 0.75 * mu, mu)
            else:
                x = ista(x)
            yield x


def trained_safe_l2o(train: Problem, validation: Problem) -> tuple[SafeL2O, dict[str, float]]:
    """Layer by layer, then all together, on F after the layers; W analytic or A itself, what is better."""
    A = train.f.A
    L = float(torch.linalg.matrix_norm(A, 2) ** 2)
    made, facts = [], {}
    for name, W in {"analytic W": analytic_weights(A), "W = A": A}.items():
        start = 1.0 if name == "analytic W" else 1 / L
        gamma = torch.full((LAYERS,), start, dtype=A.dtype).log().requires_grad_()
        theta = torch.full((LAYERS,), 0.1 * start, dtype=A.dtype).log().requires_grad_()

        def loss(problem: Problem, layers: int, W: Tensor = W, g: Tensor = gamma, t: Tensor = theta) -> Tensor:
            net, x = SafeL2O(A, W, g.exp(), t.exp(), L), torch.zeros(problem.batch, problem.n, dtype=A.dtype)
            for k in range(layers):
                x = net.layer(k, x, problem.f.b)
            return problem.objective(x).mean()

        for layers, epochs in [*zip(range(1, LAYERS + 1), itertools.repeat(EPOCHS)), (LAYERS, 8 * EPOCHS)]:
            adam = torch.optim.Adam([gamma, theta], lr=0.05 if epochs == EPOCHS else 0.01)
            for _ in range(epochs):
                adam.zero_grad()
                loss(train, layers).backward()
                adam.step()
        with torch.no_grad():
            facts[name] = float(loss(validation, LAYERS))
        made.append((facts[name], SafeL2O(A, W, gamma.detach().exp(), theta.detach().exp(), L)))
    return min(made, key=lambda pair: pair[0])[1], facts
