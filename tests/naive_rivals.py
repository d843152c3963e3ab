"""Proximal methods for one instance in plain numpy, written from their published formulas."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class One:
    """One instance: f and its gradient, r and its prox, L."""

    f: Callable[[Array], float]
    grad: Callable[[Array], Array]
    r: Callable[[Array], float]
    prox: Callable[[Array, float], Array]
    L: float

    def value(self, x: Array) -> float:
        return self.f(x) + self.r(x)

    def curvature(self, z: Array, y: Array) -> float:
        """2 [f(z) - f(y) - <grad f(y), z - y>] / |z - y|^2, with more digits where the machine has them."""
        z, y = z.astype(np.longdouble), y.astype(np.longdouble)
        return float(2 * (self.f(z) - self.f(y) - self.grad(y) @ (z - y)) / ((z - y) @ (z - y)))


def l1(lam: float) -> tuple[Callable[[Array], float], Callable[[Array, float], Array]]:
    return (
        lambda x: lam * float(np.abs(x).sum()),
        lambda v, step: np.sign(v) * np.maximum(np.abs(v) - lam * step, 0),
    )


def lasso(A: Array, b: Array, lam: float, L: float) -> One:
    return One(lambda x: 0.5 * np.sum((A @ x - b) ** 2), lambda x: A.T @ (A @ x - b), *l1(lam), L)


def logistic(A: Array, y: Array, lam: float, L: float) -> One:
    def f(x: Array) -> float:
        return np.mean(np.logaddexp(0, A @ x) - y * (A @ x))

    return One(f, lambda x: A.T @ ((1 + np.tanh(A @ x / 2)) / 2 - y) / len(y), *l1(lam), L)


def local_fista(p: One, x: Array, steps: int, restart: bool) -> tuple[list[Array], int, int]:
    """The iterates, how many steps were rejected, and how many restarted."""
    path, y, t, L, rejected, restarts = [x], x, 1.0, p.L, 0, 0
    for _ in range(steps):
        z = p.prox(y - p.grad(y) / L, 1 / L)
        c = p.curvature(z, y)
        if c > L:
            L, rejected = 1.5 * c, rejected + 1
        else:
            longer = max(1.05 * c, 0.85 * L)
            if restart and float((y - z) @ (z - x)) > 0:
                t, restarts = 1.0, restarts + 1
            following = (1 + (1 + 4 * t * t * longer / L) ** 0.5) / 2
            x, y = z, z + (t - 1) / following * (z - x)
            t, L = following, longer
        path.append(x)
    return path, rejected, restarts


def sparsa(p: One, x: Array, steps: int) -> tuple[list[Array], int, int]:
    """The iterates, one for each gradient, how many trials were rejected, and after how many F was higher."""
    path, values, alpha, g, rejected, higher = [x, x], [p.value(x)], 1 / p.L, p.grad(x), 0, 0
    while len(path) <= steps:
        trial = p.prox(x - alpha * g, alpha)
        move = trial - x
        if p.value(trial) <= max(values[-5:]) - 0.005 / alpha * float(move @ move):
            turn = p.grad(trial) - g
            higher += p.value(trial) > values[-1]
            values.append(p.value(trial))
            x, g = trial, p.grad(trial)
            alpha = min(float(move @ move) / float(move @ turn), 1e6 / p.L)
        else:
            alpha, rejected = alpha / 2, rejected + 1
        path.append(x)
    return path, rejected, higher


def optista(p: One, x: Array, N: int) -> list[Array]:
    """y_0, ..., y_N."""
    theta = [1.0]
    for _ in range(1, N):
        theta.append((1 + np.sqrt(1 + 4 * theta[-1] ** 2)) / 2)
    theta.append((1 + np.sqrt(1 + 8 * theta[-1] ** 2)) / 2)
    gamma = [2 * theta[i] / theta[N] ** 2 * (theta[N] ** 2 - 2 * theta[i] ** 2 + theta[i]) for i in range(N)]
    ys, z = [x], x
    for i in range(N):
        y = p.prox(ys[-1] - gamma[i] / p.L * p.grad(x), gamma[i] / p.L)
        z_next = x + (y - ys[-1]) / gamma[i]
        momentum = (theta[i] - 1) / theta[i + 1] * (z_next - z)
        x, z = z_next + momentum + theta[i] / theta[i + 1] * (z_next - x), z_next
        ys.append(y)
    return ys


def schedule(
    p: One, x: Array, steps: int, lengths: list[float], momenta: list[float] | None, last: float
) -> list[Array]:
    """x_0, ..., x_steps: the schedule, then FISTA from its step number len(lengths) on, or steps of last / L."""
    t = [1.0]
    for _ in range(steps):
        t.append((1 + np.sqrt(1 + 4 * t[-1] ** 2)) / 2)
    path, y = [x], x
    for k in range(steps):
        within = k < len(lengths)
        a = lengths[k] if within else (last if momenta is None else 1.0)
        b = 0.0 if momenta is None else momenta[k] if within else (t[k] - 1) / t[k + 1]
        path.append(p.prox(y - a / p.L * p.grad(y), a / p.L))
        y = path[-1] + b * (path[-1] - path[-2])
    return path


def silver_lengths(levels: int) -> list[float]:
    """h_1 = [sqrt 2], h_{m+1} = [h_m, 1 + rho^(m-1), h_m]: the silver schedule by its recursion, 2^levels - 1 steps."""
    h = [2**0.5]
    for m in range(1, levels):
        h = [*h, 1 + (1 + 2**0.5) ** (m - 1), *h]
    return h


def panoc(p: One, x: Array, steps: int, memory: int) -> tuple[list[Array], int, int]:
    """z after each gradient, how many trials were rejected, and how many pairs were dropped for age."""
    gamma = 0.95 / p.L
    u, pairs, path, rejected, dropped = x, [], [x], 0, 0

    def forward_backward(u: Array) -> tuple[Array, Array, float]:
        g = p.grad(u)
        z = p.prox(u - gamma * g, gamma)
        phi = p.f(u) + float(g @ (z - u)) + float((z - u) @ (z - u)) / (2 * gamma) + p.r(z)
        return z, (u - z) / gamma, phi

    z, R, phi = forward_backward(u)
    path.append(z)
    while len(path) <= steps:
        d = -two_loops(R, pairs, gamma)
        for tau in (1.0, 0.5, 0.25, 0.125, 0.0):
            trial = u + (1 - tau) * (z - u) + tau * d
            z_next, R_next, phi_next = forward_backward(trial)
            if phi_next <= phi - 0.0125 * gamma * float(R @ R):
                break
            rejected += 1
            path.append(z)
        if float((trial - u) @ (R_next - R)) > 0:
            pairs.append((trial - u, R_next - R))
            dropped += len(pairs) > memory
            pairs = pairs[-memory:]
        u, z, R, phi = trial, z_next, R_next, phi_next
        path.append(z)
    return path[: steps + 1], rejected, dropped


def two_loops(q: Array, pairs: list[tuple[Array, Array]], first: float) -> Array:
    """H q: the inverse BFGS matrix as a dense one, updated pair by pair."""
    if not pairs:
        return first * q
    s, y = pairs[-1]
    H = np.eye(len(q)) * float(s @ y) / float(y @ y)
    for s, y in pairs:
        V = np.eye(len(q)) - np.outer(y, s) / float(s @ y)
        H = V.T @ H @ V + np.outer(s, s) / float(s @ y)
    return H @ q
