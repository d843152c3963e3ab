"""The step of Sure on a CPU as one call of a compiled kernel (see runtime/native.py)."""

from typing import Any

import torch
from torch import Tensor

from sureprox.kernels.runtime.native import call, data, in_dtype, rows_of
from sureprox.optimizers.base import Seen
from sureprox.optimizers.sure import Sure, SureState
from sureprox.optimizers.sure_network import SureNetwork
from sureprox.optimizers.sure_place import Features
from sureprox.problems import Problem

VECTORS = ("x", "x_before", "g_before", "G_before", "side_before")
SCALARS = ("G_first", "t", "momentum")
INSTANCE = ("instance_h", "instance_c")
COORDINATE = ("coordinate_h", "coordinate_c")
NO_COORDINATES = dict.fromkeys(name + end for name in COORDINATE for end in ("", "_new"))
SURE = ("sure/sure.h", "Sure")


def suits_sure(optimizer: object) -> bool:
    """Whether the kernels of both machines compute its step: they know the features made for L1, and no others."""
    exactly = type(optimizer) is Sure and type(optimizer.network) is SureNetwork
    return exactly and optimizer.features is Features.ABSOLUTE  # type: ignore[attr-defined]


def sure_move(optimizer: Sure, problem: Problem, state: SureState, seen: Seen | None = None) -> SureState:
    """`Sure.move`, without `seen` its `step`, where r = lam |x|_1."""
    x, network = state.x, optimizer.network
    parts = data(problem, seen)
    batch, n = x.shape
    names = VECTORS + SCALARS + INSTANCE + (COORDINATE if network.coordinate else ())
    old: dict[str, Tensor] = {name: getattr(state, name).contiguous() for name in names}
    new = {name: torch.empty_like(value) for name, value in old.items()}
    R = torch.empty_like(new["x"] if network.coordinate else new["t"])
    P = torch.empty_like(new["x"] if network.coordinate or optimizer.conjugate else new["t"])
    call(
        SURE,
        x.dtype,
        {
            **NO_COORDINATES,
            **parts,
            **old,
            **{f"{name}_new": value for name, value in new.items()},
            "step": state.step_size.contiguous(),
            "fresh": state.fresh.contiguous(),
            "R": R,
            "P": P,
        },
        weights=_weights(network, x.dtype),
        batch=batch,
        m=rows_of(parts),
        n=n,
        instance=network.instance,
        coordinate=network.coordinate,
        conjugate=optimizer.conjugate,
    )
    R = R if R.ndim == 2 else R.unsqueeze(1).expand(-1, n)
    P = P if P.ndim == 2 else P.unsqueeze(1).expand(-1, n)
    return state.changed(k=state.k + 1, fresh=torch.zeros_like(state.fresh), R=R, P=P, **new)


def _weights(network: SureNetwork, dtype: torch.dtype) -> list[Tensor]:
    """In the order of sure_network.h."""
    names = ("lstm", "out", *(("told", "coordinate_lstm", "inner", "heads") if network.coordinate else ()))
    modules: list[Any] = [network._modules[name] for name in names]
    return in_dtype([w for module in modules for w in module._parameters.values() if w is not None], dtype)
