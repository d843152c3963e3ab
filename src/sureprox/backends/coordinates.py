"""The coordinate part of Sure's network as one kernel, for inference on an NVIDIA GPU."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from sureprox.backends import cuda
from sureprox.optimizers import Sure
from sureprox.optimizers.sure_network import Memory, SureNetwork, gate_weights

THREADS, UNITS = 256, 8  # as in coordinates.cu


def _build(outputs: int, device: int) -> tuple[str, str, cuda.Macros, int]:
    return "coordinates.cu", "sure_coordinates", (("OUTPUTS", outputs), ("BLOCK_THREADS", THREADS)), device


@torch.library.custom_op("sureprox::sure_coordinates", mutates_args=())
def sure_coordinates(
    features: Tensor, h: Tensor, c: Tensor, hint: Tensor, base: Tensor, weights: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """features, h, c (B, 8, n), hint (B, 32), base (B, k), flat weights -> outputs (B, k, n), new h and c."""
    batch, _, n = features.shape
    out = features.new_empty(batch, base.shape[1], n)
    h_new, c_new = cuda.result(h), cuda.result(c)
    given = [value.contiguous() for value in (features, h, c, hint, base, weights)]
    kernel = cuda.kernel(*_build(base.shape[1], features.device.index))
    kernel((batch, 1, 1), (THREADS, 1, 1), [*given, out, h_new, c_new, n])
    return out, h_new, c_new


@sure_coordinates.register_fake
def _(
    features: Tensor, h: Tensor, c: Tensor, hint: Tensor, base: Tensor, weights: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    out = features.new_empty(features.shape[0], base.shape[1], features.shape[2])
    return out, h.new_empty(h.shape), c.new_empty(c.shape)


class FusedSureNetwork(nn.Module):
    """The same function as a `SureNetwork` with eight units per coordinate; no gradients flow through it."""

    def __init__(self, network: SureNetwork) -> None:
        super().__init__()
        self.instance, self.coordinate, self.outputs = network.instance, network.coordinate, network.outputs
        self.network = network
        gates, self.bias = (part.detach() for part in gate_weights(network.coordinate_lstm, torch.float32))
        parts = [gates, network.inner.weight, network.inner.bias, network.heads.weight, network.heads.bias]
        self.flat = torch.cat([part.detach().reshape(-1) for part in parts])

    def instances(self, features: Tensor, memory: Memory) -> tuple[Tensor, Memory]:
        return self.network.instances(features, memory)

    def coordinates(self, features: list[Tensor], told: Tensor, base: Tensor, memory: Memory) -> tuple[Tensor, Memory]:
        hint = functional.linear(told, self.network.told.weight, self.bias)
        seen = torch.cat(features, 1)
        out, h, c = sure_coordinates(seen, *memory, hint, base.squeeze(2), self.flat)
        return out, (h, c)


def can_fuse_coordinates(optimizer: object, device: torch.device, dtype: torch.dtype) -> bool:
    """Whether the kernel is made for this optimizer, device and precision."""
    if not isinstance(optimizer, Sure) or not isinstance(optimizer.network, SureNetwork):
        return False
    network = optimizer.network
    return (
        network.coordinate == UNITS
        and all(p.dtype == torch.float32 for p in network.parameters())
        and cuda.usable(device, dtype, 0)
        and cuda.can_build(*_build(network.outputs, cuda.index(device)))
    )
