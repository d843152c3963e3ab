"""What kind of problem it is, in a few numbers for each instance."""

import torch
from torch import Tensor

from sureprox.base.types import Scalars
from sureprox.problems import Problem
from sureprox.problems.forms import Shape, lam_of, shape_of
from sureprox.problems.smooth import LinearModel

SCALE = ("lam", "column norm")  # they change with the units of A and b; a method blind to scale does not see them
TINY = 1e-30


def has_features(problem: Problem) -> bool:
    """Whether it is a linear model with a dense A and an L1 penalty."""
    f = problem.f
    return isinstance(f, LinearModel) and isinstance(f.A, Tensor) and shape_of(problem) is Shape.L1


@torch.no_grad()
def features(problem: Problem) -> dict[str, Scalars]:
    """log10 of each of these (B,):

    columns n; rows m / n; lam / lam_max; lam; median norm of a column; 95 % over 5 % quantile of the norms;
    mean |cosine| of neighbouring columns; lambda_max(A'A) over the mean of its min(m, n) largest eigenvalues.
    """
    f = problem.f
    assert isinstance(f, LinearModel)
    assert isinstance(f.A, Tensor)
    A = f.A.detach().double() if f.A.ndim == 3 else f.A.detach().double().unsqueeze(0)
    m, n = A.shape[1:]
    norms = torch.linalg.vector_norm(A, dim=1)
    low, middle, high = torch.quantile(norms, torch.tensor([0.05, 0.5, 0.95], dtype=A.dtype, device=A.device), dim=1)
    unit = A / norms.clamp(min=TINY).unsqueeze(1)
    cosines = (unit[:, :, 1:] * unit[:, :, :-1]).sum(1).abs().mean(1) if n > 1 else torch.zeros_like(middle)
    top = f.map.gram_norm(problem.batch).double()
    mean = norms.square().sum(1) / min(m, n)
    lam = lam_of(problem).double().expand(problem.batch)
    found = {
        "columns": torch.full_like(lam, n),
        "rows / columns": torch.full_like(lam, m / n),
        "lam / lam_max": lam / problem.scale()[1].double().clamp(min=TINY),
        "lam": lam,
        "column norm": middle,
        "spread of column norms": high / low.clamp(min=TINY),
        "correlation of neighbours": cosines,
        "L / mean eigenvalue": top / mean.clamp(min=TINY),
    }
    return {name: value.expand(problem.batch).clamp(min=TINY).log10().cpu() for name, value in found.items()}
