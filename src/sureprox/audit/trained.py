"""The networks of trained optimizers as functions of all they read, memory included, and global bounds on them."""

from typing import Any

import torch
from torch import Tensor

from sureprox.audit.jacobian import RowNetwork
from sureprox.base.errors import InputError
from sureprox.optimizers import L2OPA, Activation, GoMathL2O, Optimizer
from sureprox.optimizers.go_math_l2o import activate
from sureprox.optimizers.lstm import CoordinateNetwork


def outputs(optimizer: Optimizer[Any]) -> tuple[str, str]:
    """Names of N1 and N3."""
    return ("R", "Q") if isinstance(optimizer, GoMathL2O) else ("P", "a")


def row_network(optimizer: Optimizer[Any], step_size: Tensor) -> RowNetwork:
    """(R, d) -> (R, 2): N1 and N3 of one coordinate from its features and memory; step_size (R,) per coordinate."""
    if not isinstance(optimizer, GoMathL2O | L2OPA):
        raise InputError(f"{type(optimizer).__name__} has no coordinate-wise network; pass a GoMathL2O or an L2OPA")
    network = optimizer.network

    def read(z: Tensor, rows: Tensor) -> Tensor:
        width = z.shape[1] - 2 * network.layers * network.hidden
        memory = z[:, width:].reshape(len(z), 2 * network.layers, network.hidden).permute(1, 0, 2)
        raw, _, _ = network(z[:, :width].unsqueeze(0), memory[: network.layers], memory[network.layers :])
        N1, N3 = _applied(optimizer, raw, step_size[rows].unsqueeze(0))
        return torch.stack([N1[0], N3[0]], 1)

    return read


def _applied(optimizer: GoMathL2O | L2OPA, raw: dict[str, Tensor], inverse_L: Tensor) -> tuple[Tensor, Tensor]:
    if isinstance(optimizer, GoMathL2O):
        R, Q, _ = optimizer._diagonals(raw, inverse_L)
        return R, Q
    a_scale = 2.0 if optimizer.activation is Activation.SIGMOID else 0.3
    P = 2 * activate(optimizer.activation, raw["P"]) * inverse_L
    return P, a_scale * activate(optimizer.activation, raw["a"])


def global_bound(optimizer: GoMathL2O | L2OPA, step_size: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """Lipschitz constants (B,) of N1 and N3 from the norms of the weights, for memories with |c| <= `cell` (B,).

    gates = W s + U h + b:  c+ = sigmoid(f) c + sigmoid(i) tanh(g) has |dc+/d(s, h)| <= |c|/4 |W_f| + |W_i|/4 + |W_g|
    and |dc+/dc| <= 1;  h+ = sigmoid(o) tanh(c+) adds |W_o|/4. Then |inner|, 1 for relu, |head|, and 1/4 for sigmoid
    or 1 for softplus, times the scale of the output. True on the whole space, and usually far too large.
    """
    network = optimizer.network
    grow = torch.zeros_like(cell)  # Lipschitz constant of the signal with respect to all that was read so far
    for layer in range(network.layers):
        into = _cell_bound(network, "weight_ih", layer, cell)
        back = _cell_bound(network, "weight_hh", layer, cell)
        own = into if layer == 0 else into * grow
        grow = (own.square() + back.square() + 1).sqrt()
    if network.inner is not None:
        grow = grow * _spectral(network.inner.weight)
    heads = [_spectral(getattr(network.heads, name).weight) for name in outputs(optimizer)]
    quarter = 0.25 if optimizer.activation is Activation.SIGMOID else 1.0
    zero = torch.zeros(1, 1, dtype=torch.float64)
    one = dict.fromkeys(network.names, zero)
    # the scales are linear in the activation, so they are read off at a known value of it
    known = activate(optimizer.activation, zero)
    N1, N3 = _applied(optimizer, one, step_size.unsqueeze(0))
    return grow * heads[0] * quarter * (N1 / known)[0], grow * heads[1] * quarter * (N3 / known).expand(1, len(cell))[0]


def _cell_bound(network: CoordinateNetwork, name: str, layer: int, cell: Tensor) -> Tensor:
    i, f, g, o = (_spectral(W) for W in getattr(network.lstm, f"{name}_l{layer}").chunk(4))
    return cell / 4 * f + i / 4 + g + o / 4


def _spectral(weight: Tensor) -> float:
    return float(torch.linalg.matrix_norm(weight.detach().double(), ord=2))
