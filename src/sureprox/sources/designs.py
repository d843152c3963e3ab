"""Matrices that are harder than independent normal entries, and the scale of lam."""

import torch
from torch import Tensor

from sureprox.base.types import Scalars


def normal(generator: torch.Generator, *shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=generator, dtype=dtype, device=generator.device)


def uniform(generator: torch.Generator, *shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.rand(*shape, generator=generator, dtype=dtype, device=generator.device)


def autoregressive(noise: Tensor, rho: Tensor | float) -> Tensor:
    """a_j = rho a_{j-1} + sqrt(1 - rho^2) noise_j along the last dimension: neighbours have correlation rho.

    noise (B, m, n); rho a number or (B, 1).
    """
    fresh = (1 - torch.as_tensor(rho, dtype=noise.dtype, device=noise.device) ** 2).sqrt()
    made = [noise[..., 0]]
    for column in noise.unbind(-1)[1:]:
        made.append(rho * made[-1] + fresh * column)
    return torch.stack(made, -1)


def student(generator: torch.Generator, degrees: int, *shape: int) -> Tensor:
    """Student's t: normal / sqrt(chi^2 / degrees), heavy-tailed for few degrees of freedom."""
    square = normal(generator, degrees, *shape).square().mean(0)
    return normal(generator, *shape) / square.sqrt()


def unit_columns(A: Tensor) -> Tensor:
    norms: Tensor = torch.linalg.vector_norm(A, dim=-2, keepdim=True)
    return A / norms


def sparse_signal(generator: torch.Generator, batch: int, n: int, nonzeros: Tensor | int) -> Tensor:
    """(B, n): standard normal on a random support of `nonzeros` coordinates, a number or (B, 1)."""
    rank = uniform(generator, batch, n).argsort(1).argsort(1)
    return normal(generator, batch, n) * (rank < nonzeros)


def lasso_lam_max(A: Tensor, b: Tensor) -> Scalars:
    """max_j |a_j'b|: the smallest lam whose LASSO solution is zero; A (B, m, n) or (m, n), b (B, m)."""
    return torch.matmul(b.unsqueeze(1), A).squeeze(1).abs().amax(1)


def logistic_lam_max(A: Tensor, y: Tensor) -> Scalars:
    """The same for the mean logistic loss: max_j |a_j'(1/2 - y)| / m."""
    return lasso_lam_max(A, 0.5 - y) / A.shape[-2]
