"""The coordinate network, and the step of GO-Math-L2O, by compiled kernels on a CPU (see runtime/native.py)."""

import ctypes
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from sureprox.kernels.runtime.native import call, data, in_dtype, rows_of
from sureprox.optimizers.base import Seen
from sureprox.optimizers.go_math_l2o import Activation, GoMathL2O, GoMathState, GradientMap
from sureprox.optimizers.lstm import CoordinateNetwork
from sureprox.problems import Problem

GO_MATH, FORWARD = ("network/go_math.h", "GoMath"), ("network/go_math.h", "Forward")


def go_math_move(
    optimizer: GoMathL2O,
    problem: Problem,
    state: GoMathState,
    seen: Seen | None = None,
    then: Callable[[Tensor], ctypes.Structure] | None = None,
) -> GoMathState:
    """`GoMathL2O.move`, without `seen` its `step`, where r = lam |x|_1.

    `then` makes, of the next x, the arguments of the turn that follows for each instance while its A is near.
    """
    x, network = state.x, optimizer.network
    batch, n = x.shape
    memory = {"h": unit_rows(state.h), "c": unit_rows(state.c)}
    parts = data(problem, seen)
    tensors = {
        **parts,
        "step": state.step_size.contiguous(),
        "q_scale": state.step_size**optimizer.q_power,
        **{name: getattr(state, name).contiguous() for name in ("norms", "x", "v")},
        **memory,
    }
    new = {name: torch.empty_like(tensors["x"]) for name in ("x_new", "v_new", "R", "Q", "B")}
    new |= {f"{name}_new": memory_like(value) for name, value in memory.items()}
    new["features"] = x.new_empty(batch, 3, n)
    turn = None if then is None else then(new["x_new"])
    call(
        GO_MATH,
        x.dtype,
        tensors | new | {"turn": None if turn is None else ctypes.addressof(turn)},
        weights=network_weights(network, x.dtype),
        batch=batch,
        m=rows_of(parts),
        n=n,
        hidden=network.hidden,
        layers=network.layers,
        stride=memory["h"].stride(1),
        gradient_map=list(GradientMap).index(optimizer.gradient_map),
        softplus=optimizer.activation is Activation.SOFTPLUS,
        biases=optimizer.biases,
    )
    changed = {name.removesuffix("_new"): value for name, value in new.items()}
    changed |= {name: changed[name].mT for name in ("h", "c", "features")}
    return state.changed(k=state.k + 1, **changed)


class NativeNetwork(nn.Module):
    """`CoordinateNetwork` by the kernel, on the same weights."""

    def __init__(self, network: CoordinateNetwork) -> None:
        super().__init__()
        self.network = network
        self.names = network.names
        self.initial_memory = network.initial_memory

    def forward(self, features: Tensor, h: Tensor, c: Tensor) -> tuple[dict[str, Tensor], Tensor, Tensor]:
        network, (batch, n, width) = self.network, features.shape
        signal = features.reshape(batch * n, width)
        if network.embed is not None:
            weight, bias = in_dtype([network.embed.weight, network.embed.bias], features.dtype)
            signal = functional.elu(torch.addmm(bias, signal, weight.mT))
        tensors = {"features": signal.mT.contiguous(), "h": unit_rows(h), "c": unit_rows(c)}
        out = signal.new_empty(len(network.names), batch * n)
        new = {"out": out, "h_new": memory_like(tensors["h"]), "c_new": memory_like(tensors["c"])}
        call(
            FORWARD,
            features.dtype,
            tensors | new,
            weights=network_weights(network, features.dtype),
            rows=batch * n,
            width=signal.shape[1],
            hidden=network.hidden,
            layers=network.layers,
            stride=tensors["h"].stride(1),
            heads=len(network.names),
            inner=network.inner is not None,
        )
        outputs = dict(zip(network.names, out.view(-1, batch, n).unbind(0), strict=True))
        return outputs, new["h_new"].mT, new["c_new"].mT


def network_weights(network: CoordinateNetwork, dtype: torch.dtype) -> list[Tensor]:
    """The weights in the order of network.h, without `embed`."""
    parts = network._modules
    modules: list[Any] = [parts["lstm"]]
    if network.inner is not None:
        modules.append(network.inner)
    heads: Any = parts["heads"]
    modules += [heads._modules[name] for name in network.names]
    return in_dtype([w for module in modules for w in module._parameters.values()], dtype)


def unit_rows(memory: Tensor) -> Tensor:
    """(layers, rows, hidden) as (layers, hidden, rows) in the layout of the kernels, copied only if it is another."""
    turned = memory.detach().mT
    hidden, rows = turned.shape[1:]
    stride = _stride(rows, memory.element_size())
    return turned if turned.stride() == (hidden * stride, stride, 1) else memory_like(turned).copy_(turned)


def memory_like(turned: Tensor) -> Tensor:
    """Room for (layers, hidden, rows) in the layout of the kernels."""
    layers, hidden, rows = turned.shape
    return turned.new_empty(layers, hidden, _stride(rows, turned.element_size()))[:, :, :rows]


def _stride(rows: int, size: int) -> int:
    """From unit to unit an odd number of cache lines, so that the units do not compete for the same place in it."""
    line = 64 // size
    return (-(-rows // line) | 1) * line
