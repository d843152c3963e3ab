"""Problems of every form, of random sizes on both sides of where kernels begin; `form_cases` knows minima."""

import torch

import sureprox as sp
from helpers import labels, normal, random_problem
from sureprox import losses, operators, penalties
from sureprox.problems import L1, LeastSquares, Problem, WeightedL1, Zero

FORMS = ("lasso", "lasso shared", "lasso moved", "weighted", "free", "logistic", "logistic shared", "strided")
SMOOTH = ("huber", "squared hinge", "quantile", "softmax", "elastic net", "sparse", "blurred")
BOUNDED, BLOCKS = ("nonnegative", "box"), ("groups", "sparse groups")  # which the paper's optimizers refuse
OTHERS = (*SMOOTH, *BOUNDED, *BLOCKS)


def drawn(name: str, seed: int, dtype: torch.dtype) -> Problem:
    """A problem of this form with random sizes, on both sides of where kernels begin."""
    chance = torch.Generator().manual_seed(seed)
    m, n = int(torch.randint(1, 60, (), generator=chance)), int(torch.randint(8, 140, (), generator=chance))
    if name in OTHERS:
        return other(name, max(m, 8), n, seed).to(dtype=dtype)
    kind = "logistic" if name.startswith("logistic") else "lasso"
    problem = random_problem(kind, 3, m, n, seed=seed, shared=name.endswith("shared")).to(dtype=dtype)
    f = problem.f
    if name == "lasso moved":
        return problem.shifted(torch.randn(3, n, generator=chance, dtype=torch.float64).to(dtype))
    if name == "weighted":
        return Problem(f, WeightedL1(0.1 + torch.rand(n, generator=chance).to(dtype)))
    if name == "free":
        return Problem(f, Zero())
    return sp.lasso(f.A.mT.contiguous().mT, f.b, problem.r.lam) if name == "strided" else problem


def other(name: str, m: int, n: int, seed: int) -> Problem:
    """The same for the other losses, penalties and operators."""
    A, y, w = normal(3, m, n, seed=seed), normal(3, m, seed=seed + 1), 0.5 + normal(3, m, seed=seed + 2).abs()
    l1, f = L1(1.0 + 0.1 * normal(3, seed=seed).abs()), LeastSquares(A, y)
    groups = torch.arange(n) // 3
    hidden = normal(m, n, seed=seed) * (normal(m, n, seed=seed + 3) > 1)
    made = {
        "huber": lambda: Problem(losses.Huber(A, y, 0.7, weights=w), l1),
        "squared hinge": lambda: Problem(losses.SquaredHinge(A, labels(3, m, seed), weights=w), l1),
        "quantile": lambda: Problem(losses.Quantile(A, y, 0.7, 0.8), l1),
        "softmax": lambda: Problem(losses.Softmax(A, (torch.arange(m) % 3).expand(3, m)), l1),
        "elastic net": lambda: Problem(f, penalties.ElasticNet(1.0, 0.5)),
        "nonnegative": lambda: Problem(f, penalties.NonNegative(0.3)),
        "box": lambda: Problem(f, penalties.Box(-0.1, 0.2)),
        "sparse": lambda: Problem(LeastSquares(operators.Sparse(hidden.to_sparse()), y), l1),
        "blurred": lambda: Problem(LeastSquares(operators.Convolution(normal(5), n), normal(3, n, seed=seed)), l1),
        "groups": lambda: Problem(f, penalties.GroupL2(groups, 1.0)),
        "sparse groups": lambda: Problem(f, penalties.SparseGroup(groups, 0.5, 0.5)),
    }
    return made[name]()


def start(problem: Problem, seed: int) -> torch.Tensor:
    x = torch.randn(problem.batch, problem.n, generator=torch.Generator().manual_seed(seed)).to(problem.dtype)
    return problem.prox(x, torch.ones_like(x[:, :1])) if problem.r.restricts else x
