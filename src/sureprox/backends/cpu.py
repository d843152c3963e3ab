"""Steps of the learned optimizers on a CPU by compiled kernels: one pass over the coordinates instead of fifty.

Used where no gradient is recorded, in float32 and float64, for problems of at least SMALLEST coordinates, if the
library is at hand; it is compiled (a few seconds, once on a machine) only for a batch of at least WORTH_COMPILING
coordinates in all. `sureprox.fast.plain_steps()` and SUREPROX_NATIVE=0 switch it off, `native_status()` says
what is used. Results agree with the plain step up to rounding, and do not depend on the place in the batch.
"""

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from sureprox.backends.library import library
from sureprox.backends.threads import available
from sureprox.fast import offer
from sureprox.optimizers.go_math_l2o import Activation, GoMathL2O, GoMathState, GradientMap
from sureprox.optimizers.lstm import CoordinateNetwork
from sureprox.problems import L1, LeastSquares, Problem

SMALLEST = 16  # coordinates: a vector of the widest registers
WORTH_COMPILING = 8192  # coordinates in a batch
LARGEST_ALONE = 1 << 22  # entries of one A above which a single thread per instance is not enough

SUFFIX = {torch.float32: "float", torch.float64: "double"}


@cache
def _arguments(pointers: str, numbers: str) -> type[ctypes.Structure]:
    """A struct of pointers, then of 64-bit numbers, as in the C++ of that step."""
    fields: list[tuple[str, Any]] = [(name, ctypes.c_void_p) for name in pointers.split()]
    fields += [(name, ctypes.c_int64) for name in numbers.split()]
    return type("Arguments", (ctypes.Structure,), {"_fields_": fields})


GO_MATH = (
    "A b g shift lam step q_scale norms x v h c x_new v_new h_new c_new R Q B features weights turn",
    "batch m n hidden layers stride gradient_map softplus biases threads",
)
GRADIENT = ("A b x g weights", "batch m n threads")
FORWARD = ("features h c out h_new c_new weights", "rows width hidden layers stride heads inner threads")


def arguments(
    layout: tuple[str, str], tensors: Mapping[str, Tensor | None], weights: Any = None, **numbers: int
) -> ctypes.Structure:
    """The struct of a kernel on contiguous tensors of one dtype, which must outlive it; None is a null pointer."""
    pointers = {key: value.data_ptr() for key, value in tensors.items() if value is not None}
    return _arguments(*layout)(**pointers, weights=weights, threads=available(), **numbers)


def call(
    name: str, layout: tuple[str, str], tensors: Mapping[str, Tensor | None], weights: Sequence[Tensor], **numbers: int
) -> None:
    """Call a kernel, see `arguments`; weights become an array of pointers."""
    kernels = library(build=False)
    assert kernels is not None
    array = (ctypes.c_void_p * len(weights))(*(w.data_ptr() for w in weights))
    made = arguments(layout, tensors, ctypes.addressof(array), **numbers)
    getattr(kernels, name)(ctypes.byref(made))


def suits(x: Tensor, rows: int, width: int) -> bool:
    """Whether the kernels apply to `rows` times `width` coordinates like x, and are at hand."""
    if x.device.type != "cpu" or x.dtype not in SUFFIX or width < SMALLEST or torch.compiler.is_compiling():
        return False
    return library(build=rows * width >= WORTH_COMPILING) is not None


def suits_matrices(A: Tensor, batch: int) -> bool:
    """Whether kernels with a thread for each of `batch` instances suit the matrices A (B, m, n), and are at hand."""
    if A.ndim != 3 or not A.is_contiguous() or not suits(A, A.shape[0], A.shape[2]):
        return False
    return _busy_enough(A, batch)


def _busy_enough(A: Tensor, batch: int) -> bool:
    """As many instances as threads, unless A is small."""
    return batch >= available() or A.shape[1] * A.shape[2] <= LARGEST_ALONE


def smooth_parts(problem: Problem, x: Tensor) -> dict[str, Tensor | None] | None:
    """A and b, or the gradient where the kernel cannot compute it, and shift and lam; None for another penalty."""
    kind = type(problem)
    if type(problem.r) is not L1 or kind.prox is not Problem.prox or kind.subdiff is not Problem.subdiff:
        return None
    f, lam = problem.f, problem.r.lam
    parts: dict[str, Tensor | None] = {"A": None, "b": None, "g": None}
    if gradient_suits(problem):
        assert isinstance(f, LeastSquares)
        parts |= {"A": f.A, "b": f.b.contiguous()}
    else:
        parts["g"] = problem.grad(x).contiguous()
    shift = None if problem.shift is None else problem.shift.contiguous()
    return parts | {"shift": shift, "lam": lam.expand(x.shape[0]).contiguous()}


def gradient_suits(problem: Problem) -> bool:
    """Least squares with one A per instance, enough of them."""
    f = problem.f
    if type(problem).grad is not Problem.grad or type(f) is not LeastSquares:
        return False
    if f.A.ndim != 3 or f.copies != 1 or not f.A.is_contiguous():
        return False
    return _busy_enough(f.A, f.A.shape[0])


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


def go_math_step(
    optimizer: GoMathL2O,
    problem: Problem,
    state: GoMathState,
    then: Callable[[Tensor], ctypes.Structure] | None = None,
) -> GoMathState | None:
    """`then` makes, of the next x, the arguments of the turn that follows for each instance while its A is near."""
    x, network = state.x, optimizer.network
    if type(network) is not CoordinateNetwork or not suits(x, *x.shape):
        return None
    parts = smooth_parts(problem, x)
    if parts is None:
        return None
    batch, n = x.shape
    memory = {"h": unit_rows(state.h), "c": unit_rows(state.c)}
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
        f"go_math_{SUFFIX[x.dtype]}",
        GO_MATH,
        tensors | new,
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
        **({} if turn is None else {"turn": ctypes.addressof(turn)}),
    )
    changed = {name.removesuffix("_new"): value for name, value in new.items()}
    changed |= {name: changed[name].mT for name in ("h", "c", "features")}
    return replace(state, k=state.k + 1, **changed)


def rows_of(parts: dict[str, Tensor | None]) -> int:
    A = parts["A"]
    return 0 if A is None else A.shape[1]


def network_forward(
    network: CoordinateNetwork, features: Tensor, h: Tensor, c: Tensor
) -> tuple[dict[str, Tensor], Tensor, Tensor] | None:
    batch, n, width = features.shape
    if not suits(features, batch, n):
        return None
    signal = features.reshape(batch * n, width)
    if network.embed is not None:
        weight, bias = in_dtype([network.embed.weight, network.embed.bias], features.dtype)
        signal = functional.elu(torch.addmm(bias, signal, weight.mT))
    tensors = {"features": signal.mT.contiguous(), "h": unit_rows(h), "c": unit_rows(c)}
    out = signal.new_empty(len(network.names), batch * n)
    new = {"out": out, "h_new": memory_like(tensors["h"]), "c_new": memory_like(tensors["c"])}
    call(
        f"forward_{SUFFIX[features.dtype]}",
        FORWARD,
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


def one_read_gradient(problem: Problem, x: Tensor) -> Tensor | None:
    """A'(A x - b) with one read of A, as the kernels of whole steps compute it; None where they would not."""
    if not gradient_suits(problem) or not suits(x, *x.shape):
        return None
    f = problem.f
    assert isinstance(f, LeastSquares)
    point, g = problem.centred(x).contiguous(), torch.empty_like(x)
    tensors = {"A": f.A, "b": f.b.contiguous(), "x": point, "g": g}
    call(f"gradient_{SUFFIX[x.dtype]}", GRADIENT, tensors, weights=(), batch=len(x), m=f.m, n=x.shape[1])
    return g


offer(GoMathL2O, "step", go_math_step)
offer(CoordinateNetwork, "forward", network_forward)
