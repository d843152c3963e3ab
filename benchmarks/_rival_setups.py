"""The problems on which learned step sizes were published, drawn as their public scripts draw them where data allow it.

Each setting has 10 instances to train on, 200 to choose by, and test instances in distribution and, for one, out of it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import torch
from torch import Tensor

import sureprox as sp
from sureprox.penalties import ElasticNet, Separable
from sureprox.problems import LeastSquares, Logistic, Problem
from sureprox.solve.reference import Reference

F64 = torch.float64
FEW, CHOICE = 10, 200  # instances to train on, to choose by
SPARE = FEW + CHOICE
SEED = 42  # theirs


@dataclass(frozen=True)
class Setting:
    """`about`: what the problems are and what differs from the published set-up."""

    about: str
    train: Problem
    validation: Problem
    tests: dict[str, Problem]
    signals: dict[str, Tensor] = field(default_factory=dict)  # what b was made from, where the problem is to find it
    many: Problem | None = None  # further instances
    known: Tensor | None = None  # those of the instances to train on and to choose by


def lasso(m: int, n: int, tests: int, outside: int) -> Setting:
    """min 1/2 |A x - b|^2 + 0.1 |x|_1, one A with unit columns, b = A z + noise at 40 dB, z: 10 % of N(0, 1).

    `outside` instances have z three times as large. The order of draws is that of the public script (seed 42).
    """
    random = np.random.RandomState(SEED)
    A = random.normal(size=(m, n)) / np.sqrt(m)
    A = A / np.linalg.norm(A, axis=0)
    count = 11_000 if outside else 3_100
    z = np.vstack([random.normal(scale=3.0, size=(outside, n)), random.normal(scale=1.0, size=(count - outside, n))])
    z *= random.choice(2, size=(count, n), replace=True, p=[0.9, 0.1])
    noise = np.sqrt(np.var(z, axis=1, keepdims=True)) * 10 ** (-40 / 20) * random.normal(size=(count, m))
    b = z @ A.T + noise

    def part(first: int, size: int) -> Problem:
        return sp.lasso(torch.tensor(A), torch.tensor(b[first : first + size]), 0.1)

    first = outside
    parts = {"in distribution": part(first + SPARE, tests)}
    signals = {"in distribution": torch.tensor(z[first + SPARE :][:tests])}
    if outside:
        parts["signals three times as large"] = part(0, tests)
        signals["signals three times as large"] = torch.tensor(z[:tests])
    about = f"LASSO {m} x {n}, one A, lam 0.1; the draws of the public script, {tests:,} test instances"
    known = torch.tensor(z[first : first + SPARE])
    many = part(first + SPARE + tests, 1000) if outside else None
    return Setting(about, part(first, FEW), part(first + FEW, CHOICE), parts, signals, many, known)


@cache
def solved(problem: Problem) -> Reference:
    """x* and F*, to a relative gap of 1e-10, once for each batch."""
    return sp.reference(problem, tol=1e-10)


def stretched(problem: Problem, times: float) -> Problem:
    """LASSO instances, followed by the same with b so many times as large."""
    return sp.lasso(problem.f.A, torch.cat([problem.f.b, times * problem.f.b]), 0.1)


def nonnegative(tests: int) -> Setting:
    """min 1/2 |A x - b|^2 over x >= 0, A 700 x 500 with unit columns, b N(0, 1): their nonnegative least squares."""
    random = np.random.RandomState(SEED)
    A = random.normal(size=(700, 500)) / np.sqrt(700)
    A = torch.tensor(A / np.linalg.norm(A, axis=0))
    b = torch.tensor(random.normal(size=(SPARE + tests, 700)))
    about = f"nonnegative least squares 700 x 500, one A; drawn like theirs, {tests} test instances"
    return split(about, lambda i: sp.nonnegative(A, b[i]), tests)


def logistic(tests: int) -> Setting:
    """Two classes of digits, 100 pictures of each: logistic regression with 64 features and an intercept.

    Theirs takes 28 x 28 pictures (MNIST) and no penalty, so that most instances have no minimiser; here the 8 x 8
    pictures of scikit-learn and l2 / 2 |x|^2 with l2 = 0.001.
    """
    from sklearn.datasets import load_digits

    pictures, classes = load_digits(return_X_y=True)
    random = np.random.RandomState(SEED)
    A, y = [], []
    for _ in range(SPARE + tests):
        pair = random.choice(10, size=2, replace=False)
        chosen = np.concatenate([random.choice(np.where(classes == c)[0], 100, replace=False) for c in pair])
        A.append(np.hstack([pictures[chosen] / 16, np.ones((200, 1))]))
        y.append(classes[chosen] == pair[1])
    features, labels = torch.tensor(np.stack(A)), torch.tensor(np.stack(y), dtype=F64)
    about = f"logistic regression, 200 digits of two classes, l2 0.001; 8 x 8 pictures in place of MNIST, {tests} tests"
    return split(about, lambda i: Problem(Logistic(features[i], labels[i]), ElasticNet(0.0, 0.001)), tests)


def deblurring(tests: int) -> Setting:
    """min 1/2 |B x - b|^2 + 1e-4 sum_j x_j over [0, 1]^784: pictures seen through an 8 x 8 average, noise 0.001.

    Theirs are letters (EMNIST), here digits of scikit-learn enlarged to 28 x 28; theirs counts iterations of OSQP,
    each of which solves a linear system.
    """
    from sklearn.datasets import load_digits

    random = np.random.RandomState(SEED)
    small = torch.tensor(load_digits().images[random.permutation(1797)[: SPARE + tests]] / 16)
    pictures = torch.nn.functional.interpolate(small[:, None], size=(28, 28), mode="bilinear")[:, 0].reshape(-1, 784)
    average = sum(torch.diag(torch.ones(28 - abs(k)), k) for k in range(-4, 4)).to(F64) / 8
    B = torch.kron(average, average)
    b = pictures @ B.T + 0.001 * torch.tensor(random.normal(size=pictures.shape))
    about = f"deblurring 28 x 28 within [0, 1]; digits in place of EMNIST, gradients in place of OSQP, {tests} tests"
    # over [0, 1] the penalty is linear, and |x| is x
    return split(about, lambda i: Problem(LeastSquares(B, b[i]), Separable(1e-4, low=0.0, high=1.0)), tests, 30)


def split(about: str, make: Callable[[slice], Problem], tests: int, choice: int = CHOICE) -> Setting:
    parts = (slice(0, FEW), slice(FEW, FEW + choice), slice(SPARE, SPARE + tests))
    train, validation, test = map(make, parts)
    return Setting(about, train, validation, {"in distribution": test})


SETTINGS: dict[str, Callable[[bool], Setting]] = {
    "lasso 250 x 500": lambda small: lasso(250, 500, 20 if small else 1000, 1000),
    "lasso 64 x 128": lambda small: lasso(64, 128, 20 if small else 1000, 0),
    "nonnegative": lambda small: nonnegative(10 if small else 100),
    "logistic": lambda small: logistic(10 if small else 200),
    "deblurring": lambda small: deblurring(10 if small else 50),
}
