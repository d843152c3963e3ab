"""The virtual Jacobian: the average of the Jacobian on the segment from z to z', and bounds on its size.

Jbar = integral_0^1 J(z + tau s') dtau satisfies N(z + s') - N(z) = Jbar s', whatever the network.

Networks are seen row by row: N maps (R, d) to (R, q), every row alone. For a coordinate-wise network the rows are the
coordinates and the full Jacobian is block diagonal; for others the rows are the instances.
"""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.func import jvp, vjp, vmap

from sureprox.audit.result import Check, bound, norm

RowNetwork = Callable[[Tensor, Tensor], Tensor]  # points (R, d) and which rows they belong to (R,) -> (R, q)
Integrand = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]  # -> what is averaged (R, ...), and J s' (R, q)

NODES = 8  # of the Gauss-Legendre rule on each interval
DEPTH = 48  # halvings: enough to corner a kink of the network to 1e-14 of the segment
SAMPLES = 32


def jacobian(network: RowNetwork, z: Tensor, rows: Tensor) -> Tensor:
    """(R, q, d): one vector-Jacobian product for each of the q outputs."""
    made: Any = vjp(lambda point: network(point, rows), z)
    value, pull = made
    basis = torch.eye(value.shape[1], dtype=z.dtype).unsqueeze(1).expand(-1, len(z), -1)
    found: Tensor = vmap(pull)(basis)[0]
    return found.transpose(0, 1)


def slope(network: RowNetwork, z: Tensor, rows: Tensor, step: Tensor) -> Tensor:
    """(R, q): J(z) step, one Jacobian-vector product."""
    with warnings.catch_warnings():  # its first use makes torch load parts that it calls deprecated itself
        warnings.simplefilter("ignore", DeprecationWarning)
        found: Tensor = jvp(lambda point: network(point, rows), (z,), (step,))[1]
    return found


@dataclass(frozen=True)
class Average:
    """An integral over the segment, and |average of J s' - (N(z') - N(z))| for each row."""

    value: Tensor
    residual: Tensor


def average_jacobian(network: RowNetwork, z: Tensor, step: Tensor, tol: float = 1e-13) -> Average:
    """Jbar (R, q, d) by adaptive quadrature."""

    def integrand(point: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        J = jacobian(network, point, rows)
        return J, torch.einsum("rqd,rd->rq", J, step[rows])

    return _average(network, integrand, z, step, tol)


def average_slope(network: RowNetwork, z: Tensor, step: Tensor, tol: float = 1e-13) -> Average:
    """Jbar s' (R, q) from Jacobian-vector products alone: no matrix is formed."""

    def integrand(point: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        along = slope(network, point, rows, step[rows])
        return along, along

    return _average(network, integrand, z, step, tol)


def _average(network: RowNetwork, integrand: Integrand, z: Tensor, step: Tensor, tol: float) -> Average:
    """Gauss-Legendre on intervals that are halved until J s' integrates to the difference of N at their ends.

    That difference is known exactly, so the error of every interval is measured, not estimated.
    """
    nodes, weights = (torch.from_numpy(a) for a in np.polynomial.legendre.leggauss(NODES))
    rows = torch.arange(len(z))
    low, high = torch.zeros(len(z), dtype=z.dtype), torch.ones(len(z), dtype=z.dtype)
    ends = network(z + step, rows), network(z, rows)
    size = 1 + ends[0].abs().amax(1) + ends[1].abs().amax(1)
    total: Tensor | None = None
    along_total = torch.zeros_like(ends[0])

    def at(tau: Tensor) -> Tensor:
        return z[rows] + tau.unsqueeze(1) * step[rows]

    for depth in range(DEPTH + 1):
        half = (high - low) / 2
        # all nodes of all intervals in one evaluation
        taus = (low + half * (1 + nodes.unsqueeze(1))).flatten()
        every = rows.repeat(NODES)
        values, slopes = integrand(z[every] + taus.unsqueeze(1) * step[every], every)
        measure = weights.unsqueeze(1) * half
        value = torch.einsum("kr,kr...->r...", measure, values.unflatten(0, (NODES, len(rows))))
        along = torch.einsum("kr,kr...->r...", measure, slopes.unflatten(0, (NODES, len(rows))))
        error = (along - network(at(high), rows) + network(at(low), rows)).abs().amax(1)
        good = (error <= tol * size[rows]) | (depth == DEPTH)
        if total is None:
            total = torch.zeros(len(z), *value.shape[1:], dtype=z.dtype)
        total.index_add_(0, rows[good], value[good])
        along_total.index_add_(0, rows[good], along[good])
        middle, bad = (low + high) / 2, ~good
        rows = torch.cat([rows[bad], rows[bad]])
        low, high = torch.cat([low[bad], middle[bad]]), torch.cat([middle[bad], high[bad]])
        if not len(rows):
            break
    assert total is not None
    return Average(total, (along_total - ends[0] + ends[1]).abs().amax(1))


def segment(network: RowNetwork, z: Tensor, step: Tensor, samples: int = SAMPLES) -> Iterator[Tensor]:
    """Jacobians (R, q, d) at `samples` points spread evenly over the segment, its ends included."""
    rows = torch.arange(len(z))
    for tau in torch.linspace(0, 1, samples, dtype=z.dtype):
        yield jacobian(network, z + tau * step, rows)


def sampled_maximum(network: RowNetwork, z: Tensor, step: Tensor, samples: int = SAMPLES) -> Tensor:
    """(R, q): the largest gradient norm of each output on the sampled segment. A lower estimate of the supremum.

    For a coordinate-wise network the largest of them over the coordinates is the spectral norm of the Jacobian.
    """
    return torch.stack([norm(J) for J in segment(network, z, step, samples)]).amax(0)


def virtual_jacobian(network: RowNetwork, z: Tensor, z_ood: Tensor, C: Tensor) -> Check:
    """There is J with N(z') = N(z) + J s' and |J| <= sqrt(n) C, where |J(.)|_F <= C between z and z'.   HOLDS

    The average Jacobian is one, and its norm is at most C (`corrected`). C: (R,).
    """
    average = average_jacobian(network, z, z_ood - z)
    lhs = torch.linalg.matrix_norm(average.value)
    n = average.value.shape[1]
    true = bound(C)
    return Check(
        "Virtual Jacobian",
        lhs,
        lhs.abs(),
        printed=bound(n**0.5 * C),
        corrected=true,
        free=true,
        hypotheses={"J s' = N(z') - N(z)": average.residual},
    )
