"""Calling the compiled kernels of a CPU, and the moves of the learned optimizers by them.

Float32 and float64, for problems of at least SMALLEST coordinates. Results agree with the plain move up to rounding,
and do not depend on the place in the batch.
"""

import ctypes
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from sureprox.kernels.runtime.abi import filled, struct
from sureprox.kernels.runtime.library import library
from sureprox.kernels.runtime.threads import available
from sureprox.optimizers.base import Seen
from sureprox.optimizers.go_math_l2o import Activation, GoMathL2O, GoMathState, GradientMap
from sureprox.optimizers.lstm import CoordinateNetwork
from sureprox.problems import Problem
from sureprox.problems.forms import Form, Loss, dense, lam_of, parts_of

SMALLEST = 16  # coordinates: a vector of the widest registers
LARGEST_ALONE = 1 << 22  # entries of one A above which a single thread per instance is not enough

SUFFIX = {torch.float32: "float", torch.float64: "double"}


Table = tuple[str, str]  # where the struct of a kernel is declared, and its name
GO_MATH, FORWARD = ("network/go_math.h", "GoMath"), ("network/go_math.h", "Forward")
GRADIENT = ("products/gradient.h", "Gradient")


def arguments(table: Table, values: Mapping[str, Any]) -> ctypes.Structure:
    """The struct of a kernel on contiguous tensors of one dtype, which must outlive it; None is a null pointer."""
    return filled(struct(*table), {**values, "threads": available()})


def call(
    table: Table, dtype: torch.dtype, values: Mapping[str, Any], weights: Sequence[Tensor] = (), **numbers: float
) -> None:
    """Call a kernel, see `arguments`; weights, if there are any, become an array of pointers."""
    array = (ctypes.c_void_p * len(weights))(*map(Tensor.data_ptr, weights))
    given = {"weights": ctypes.addressof(array)} if weights else {}
    made = arguments(table, {**values, **numbers, **given})
    _function(library(build=False), f"{_snake(table[1])}_{SUFFIX[dtype]}")(ctypes.byref(made))


@cache
def _snake(name: str) -> str:
    return re.sub(r"(?<!^)([A-Z])", r"_\1", name).lower()


@cache
def _function(kernels: ctypes.CDLL, name: str) -> Any:
    return getattr(kernels, name)


def suits(form: Form) -> bool:
    """Whether the kernels are made for problems of this form."""
    return form.device.type == "cpu" and form.dtype in SUFFIX and form.n >= SMALLEST


def suits_matrices(form: Form) -> bool:
    """Whether kernels that read A with a thread for each instance are made for this form."""
    return suits(form) and form.own_matrices and form.m * form.n <= LARGEST_ALONE


def suits_squares(form: Form) -> bool:
    """The same where f = 1/2 |A x - b|^2 is computed."""
    return suits_matrices(form) and form.loss is Loss.SQUARES


def data(problem: Problem, seen: Seen | None) -> dict[str, Tensor | None]:
    """What a step needs where r = lam |x|_1: the shift, lam, and the gradient or, to compute it, A and b."""
    shift = None if problem.shift is None else problem.shift.contiguous()
    found: dict[str, Tensor | None] = {"A": None, "b": None, "g": None, "shift": shift}
    found["lam"] = lam_of(problem).expand(problem.batch).contiguous()
    if seen is not None:
        return found | {"g": seen.grad.contiguous()}
    A, b = dense(problem)
    return found | {"A": A, "b": b.contiguous()}


def penalty(problem: Problem) -> tuple[dict[str, Tensor | None], dict[str, int]]:
    """The parts of a separable penalty as they lie, and from where to where it is from instance to instance and from
    coordinate to coordinate: nowhere, where they are shared."""
    parts, steps = parts_of(problem), {}
    for name, value in parts.items():
        row, column = (0, 0) if value is None else value.expand(problem.batch, problem.n).stride()
        steps |= {f"{name}_row": row, f"{name}_column": column}
    return parts, steps


def copies(problem: Problem) -> int:
    """How many instances in a row have one A."""
    A = dense(problem).A
    return problem.batch if A.ndim == 2 else problem.batch // len(A)


def rows_of(parts: Mapping[str, Tensor | None]) -> int:
    A = parts["A"]
    return 0 if A is None else A.shape[1]


def network_weights(network: CoordinateNetwork, dtype: torch.dtype) -> list[Tensor]:
    """The weights in the order of network.h, without `embed`."""
    parts = network._modules
    modules: list[Any] = [parts["lstm"]]
    if network.inner is not None:
        modules.append(network.inner)
    heads: Any = parts["heads"]
    modules += [heads._modules[name] for name in network.names]
    return in_dtype([w for module in modules for w in module._parameters.values()], dtype)


def in_dtype(weights: list[Tensor], dtype: torch.dtype) -> list[Tensor]:
    return [w if w.dtype == dtype and w.is_contiguous() else w.detach().to(dtype).contiguous() for w in weights]


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


def gradient(problem: Problem, x: Tensor) -> Tensor:
    """A'(A x - b) with one read of A."""
    A, b = dense(problem)
    point, g = problem.centred(x).contiguous(), torch.empty_like(x, memory_format=torch.contiguous_format)
    tensors = {"A": A, "b": b.contiguous(), "x": point, "g": g}
    call(GRADIENT, x.dtype, tensors, batch=len(x), m=A.shape[1], n=x.shape[1])
    return g
