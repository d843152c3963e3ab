"""The coordinate network as one kernel forward and one backward, for training and inference on an NVIDIA GPU."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from sureprox.kernels.runtime import cuda
from sureprox.kernels.runtime.abi import constants
from sureprox.optimizers import LearnedOptimizer
from sureprox.optimizers.lstm import CoordinateNetwork

UNITS, WARPS, TILE = constants("network/network.cu", "UNITS", "WARPS", "TILE")
ROWS, THREADS = WARPS * TILE, 32 * WARPS  # of a block
CAPABILITY = (8, 0)  # the first GPUs with tf32 matrix units; the shared memory asked for below needs 9.0


@dataclass(frozen=True)
class Architecture:
    """What network.cu is compiled for: width of the input, number of heads, inner layer or not, first weight used."""

    features: int
    heads: int
    inner: bool
    offset: int

    @property
    def weights(self) -> int:
        """Length of the flat weights."""
        lstm = 4 * UNITS * (self.features + 3 * UNITS + 4)
        return self.offset + lstm + self.inner * UNITS * (UNITS + 1) + self.heads * (UNITS + 1)

    @property
    def memory(self) -> int:
        """Bytes of shared memory of the backward pass: weights in both directions, and 128 rows of what is summed."""
        wide = self.features == UNITS
        pairs, inner = (5, 40) if wide else (3, 24), 288 if self.inner else 1
        forward = 2 * (pairs[0] * 320 + 1600 + inner) + 9 * UNITS + self.heads * (UNITS + 1)
        backward = 2 * (pairs[0] * 320 + 1600 + inner)
        return 4 * (forward + forward % 2 + backward + ROWS * (2 * 88 + pairs[1] + 40 + 24 + 40))

    @property
    def key(self) -> cuda.Macros:
        return tuple(self.macros().items())

    def macros(self) -> dict[str, int]:
        return {
            "FEATURES": self.features,
            "HEADS": self.heads,
            "INNER": int(self.inner),
            "OFFSET": self.offset,
            "MEMORY": self.memory,
        }


def architecture(network: CoordinateNetwork) -> Architecture | None:
    """How the kernel sees this network, or None if it is not made for it."""
    first = network.lstm.weight_ih_l0
    assert isinstance(first, Tensor)
    features = first.shape[1]
    heads = len(network.names)
    if network.hidden != UNITS or network.layers != 2 or not 1 <= heads <= 3 or features not in (1, 2, 3, UNITS):
        return None
    offset = sum(p.numel() for p in network.embed.parameters()) if network.embed is not None else 0
    return Architecture(features, heads, network.inner is not None, offset)


def _kernel(shape: Architecture, name: str, device: int) -> Any:
    shared = shape.memory if name == "network_backward" else 0
    return cuda.kernel("network/network.cu", name, shape.key, device, shared)


def _blocks(rows: int, device: int, per_multiprocessor: int) -> int:
    return min(-(-rows // ROWS), per_multiprocessor * cuda.multiprocessors(device))


@torch.library.custom_op("sureprox::coordinate_network", mutates_args=())
def coordinate_network(
    features: Tensor, h: Tensor, c: Tensor, weights: Tensor, heads: int, inner: bool, offset: int
) -> tuple[Tensor, Tensor, Tensor]:
    """features (rows, F), h and c (2, rows, 20), flat weights -> outputs (rows, heads), new h and c."""
    rows, shape = features.shape[0], Architecture(features.shape[1], heads, inner, offset)
    device = features.device.index
    out = features.new_empty(rows, heads)
    h_new, c_new = cuda.result(h), cuda.result(c)
    given = {"features": features.contiguous(), "h": h.contiguous(), "c": c.contiguous(), "weights": weights}
    arguments = {**given, "out": out, "h_new": h_new, "c_new": c_new, "rows": rows}
    _kernel(shape, "network_forward", device)((_blocks(rows, device, 2), 1, 1), (THREADS, 1, 1), arguments)
    return out, h_new, c_new


@coordinate_network.register_fake
def _(
    features: Tensor, h: Tensor, c: Tensor, weights: Tensor, heads: int, inner: bool, offset: int
) -> tuple[Tensor, Tensor, Tensor]:
    return features.new_empty(features.shape[0], heads), h.new_empty(h.shape), c.new_empty(c.shape)


@torch.library.custom_op("sureprox::coordinate_network_backward", mutates_args=())
def coordinate_network_backward(
    features: Tensor,
    h: Tensor,
    c: Tensor,
    weights: Tensor,
    d_out: Tensor,
    d_h: Tensor,
    d_c: Tensor,
    inner: bool,
    offset: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients with respect to features, h, c, and to the weights one row per block, still to be added up."""
    rows, shape = features.shape[0], Architecture(features.shape[1], d_out.shape[1], inner, offset)
    device = features.device.index
    blocks = _blocks(rows, device, 1)
    to_features, to_h, to_c = features.new_empty(features.shape), h.new_empty(h.shape), c.new_empty(c.shape)
    partial = weights.new_empty(blocks, shape.weights)
    given = {"features": features, "h": h, "c": c, "weights": weights, "d_out": d_out, "d_h_new": d_h, "d_c_new": d_c}
    made = {"d_features": to_features, "d_h": to_h, "d_c": to_c, "partial": partial, "rows": rows}
    arguments = {name: value.contiguous() for name, value in given.items()} | made
    _kernel(shape, "network_backward", device)((blocks, 1, 1), (THREADS, 1, 1), arguments, shared_mem=shape.memory)
    return to_features, to_h, to_c, partial


@coordinate_network_backward.register_fake
def _(
    features: Tensor,
    h: Tensor,
    c: Tensor,
    weights: Tensor,
    d_out: Tensor,
    d_h: Tensor,
    d_c: Tensor,
    inner: bool,
    offset: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    blocks = _blocks(features.shape[0], features.device.index or 0, 1)
    partial = weights.new_empty(blocks, weights.shape[0])
    return features.new_empty(features.shape), h.new_empty(h.shape), c.new_empty(c.shape), partial


def _setup(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    features, h, c, weights, _, ctx.inner, ctx.offset = inputs
    ctx.save_for_backward(features, h, c, weights)


def _backward(ctx: Any, d_out: Tensor, d_h: Tensor, d_c: Tensor) -> tuple[Tensor | None, ...]:
    to_features, to_h, to_c, partial = coordinate_network_backward(
        *ctx.saved_tensors, d_out, d_h, d_c, ctx.inner, ctx.offset
    )
    return to_features, to_h, to_c, partial.sum(0), None, None, None


coordinate_network.register_autograd(_backward, setup_context=_setup)


class FusedNetwork(nn.Module):
    """The same function as a `CoordinateNetwork`, on float32 weights that lie in one vector, `flat`.

    The parameters of the network become views of that vector, so that what is done to the one is done to the other.
    """

    def __init__(self, network: CoordinateNetwork) -> None:
        super().__init__()
        shape = architecture(network)
        assert shape is not None
        self.shape = shape
        self.names = network.names
        self.initial_memory = network.initial_memory
        self.embed_shape = tuple(network.embed.weight.shape) if network.embed is not None else None
        parameters = list(network.parameters())
        self.flat = nn.Parameter(torch.cat([p.detach().reshape(-1) for p in parameters]))
        start = 0
        for parameter in parameters:
            parameter.data = self.flat.data[start : start + parameter.numel()].view_as(parameter)
            start += parameter.numel()

    def forward(self, features: Tensor, h: Tensor, c: Tensor) -> tuple[dict[str, Tensor], Tensor, Tensor]:
        """As `CoordinateNetwork.forward`."""
        batch, n, width = features.shape
        signal = features.reshape(batch * n, width)
        if self.embed_shape is not None:
            weight, bias = self.flat[: self.shape.offset].split([self.embed_shape[0] * self.embed_shape[1], UNITS])
            signal = functional.elu(torch.addmm(bias, signal, weight.view(self.embed_shape).mT))
        out, h, c = coordinate_network(signal, h, c, self.flat, self.shape.heads, self.shape.inner, self.shape.offset)
        return {name: out[:, k].view(batch, n) for k, name in enumerate(self.names)}, h, c


def builds(device: torch.device, dtype: torch.dtype, optimizer: Any) -> list[cuda.Build]:
    """What `fused` needs; nothing where the kernel is not made for this optimizer, device and precision."""
    network = getattr(optimizer, "network", None)
    if not isinstance(optimizer, LearnedOptimizer) or not isinstance(network, CoordinateNetwork):
        return []
    shape = architecture(network)
    if shape is None or any(p.dtype != torch.float32 for p in network.parameters()):
        return []
    if not cuda.usable(device, dtype, shape.memory) or torch.cuda.get_device_capability(device) < CAPABILITY:
        return []
    number = cuda.index(device)
    forward = ("network/network.cu", "network_forward", shape.key, number, 0)
    return [forward, ("network/network.cu", "network_backward", shape.key, number, shape.memory)]


def can_fuse(optimizer: Any, device: torch.device, dtype: torch.dtype) -> bool:
    """Whether the kernel is made for this optimizer, device and precision, and can be built."""
    wanted = builds(device, dtype, optimizer)
    return bool(wanted) and cuda.built(wanted)


def fused(optimizer: LearnedOptimizer[Any]) -> tuple[LearnedOptimizer[Any], nn.Parameter]:
    """A copy of the optimizer that runs its network by the kernel, and the vector that holds its weights and the
    original's."""
    network = optimizer.network
    assert isinstance(network, CoordinateNetwork)
    replacement = FusedNetwork(network)
    copy = optimizer.sharing_weights()
    copy._modules["network"] = replacement
    return copy, replacement.flat
