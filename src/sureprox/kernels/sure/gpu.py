"""The step of Sure on problems with r = lam |x|_1 as one kernel, for inference on an NVIDIA GPU."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from sureprox.kernels.runtime import cuda
from sureprox.kernels.sure.cpu import suits_sure
from sureprox.optimizers import Sure
from sureprox.optimizers.base import Seen
from sureprox.optimizers.sure import SureState
from sureprox.optimizers.sure_network import SureNetwork, gate_weights
from sureprox.problems import Problem
from sureprox.problems.forms import Form, Shape, lam_of

UNITS = 8  # of the LSTM of the coordinates, as in coordinate.cu
CONJUGATE = 4  # outputs of a network with a conjugate share
MOST_THREADS, FEWEST_THREADS = 256, 64  # of a block, which works on an instance
VECTORS = ("x", "x_before", "g_before", "G_before", "side_before")
NUMBERS = ("G_first", "t", "momentum", "fresh")
INSTANCE = ("instance_h", "instance_c")
COORDINATE = ("coordinate_h", "coordinate_c")
OLD = (
    "step_size",
    *VECTORS,
    *NUMBERS,
    *INSTANCE,
)  # what it reads of a state, and where it has one the memory COORDINATE
NEW = ("x", "G_before", "side_before", "R", "P", *NUMBERS, *INSTANCE)  # what it makes, and COORDINATE, and SEARCHED
SEARCHED = ("x_before", "g_before")  # where there is a conjugate share
WEIGHTS = ("gates", "out", "told", "flat")  # the last two where the coordinates have an LSTM
FIELDS = {"step_size": "step"}  # other names in sure.cu: of what is read, and of what is made
MADE = {"G_before": "G_new", "side_before": "side_new", "R": "R", "P": "P", "x_before": "base_new", "g_before": "g_new"}


def _build(outputs: int, instance: int, coordinate: int, n: int, device: int) -> cuda.Build:
    sizes = (("OUTPUTS", outputs), ("INSTANCE", instance), ("COORDINATE", coordinate), ("BLOCK_THREADS", threads(n)))
    return "sure/sure.cu", "sure_step", sizes, device, 0


def threads(n: int) -> int:
    """Of a block, for n coordinates: each thread works on two at a time."""
    found = MOST_THREADS
    while found > FEWEST_THREADS and n <= found:
        found //= 2
    return found


def launch_sure_step(g: Tensor, lam: Tensor, old: list[Tensor], weights: list[Tensor]) -> list[Tensor]:
    """The tensors of the next state, those that `_made` names.

    g (B, n), lam () or (B,), old: OLD and, where the coordinates have an LSTM, COORDINATE; weights as from `_packed`.
    """
    before = _named(old)
    (batch, n), coordinate = before["x"].shape, UNITS if COORDINATE[0] in before else 0
    made = {name: cuda.result(before[like]) for name, like in _made(before, weights).items()}
    arguments: dict[str, Any] = dict.fromkeys((*WEIGHTS, *COORDINATE, *(f"{name}_new" for name in COORDINATE)))
    arguments |= {MADE[name]: None for name in SEARCHED}
    arguments |= {FIELDS.get(name, name): value.contiguous() for name, value in before.items()}
    arguments |= {MADE.get(name, f"{name}_new"): value for name, value in made.items()}
    arguments |= dict(zip(WEIGHTS, weights, strict=False))
    arguments |= {"g": g.contiguous(), "lam": lam.contiguous(), "n": n, "many": lam.ndim}
    kernel = cuda.kernel(*_build(_outputs(weights), before["instance_h"].shape[1], coordinate, n, g.device.index))
    kernel((batch, 1, 1), (threads(n), 1, 1), arguments)
    return list(made.values())


def _named(old: list[Tensor]) -> dict[str, Tensor]:
    return dict(zip((*OLD, *COORDINATE), old, strict=False))


def _outputs(weights: list[Tensor]) -> int:
    return weights[WEIGHTS.index("out")].shape[1]


def _made(before: Iterable[str], weights: list[Tensor]) -> dict[str, str]:
    """What the kernel makes, each like a tensor of the state before."""
    found = {name: "x" if name in ("R", "P") else name for name in NEW}
    found |= {name: name for name in COORDINATE if name in before}
    return found | (dict.fromkeys(SEARCHED, "x") if _outputs(weights) == CONJUGATE else {})


sure_step = torch.library.custom_op("sureprox::sure_step", mutates_args=())(launch_sure_step)


@sure_step.register_fake
def _(g: Tensor, lam: Tensor, old: list[Tensor], weights: list[Tensor]) -> list[Tensor]:
    before = _named(old)
    return [before[like].new_empty(before[like].shape) for like in _made(before, weights).values()]


class SureMove:
    """`Sure.move` for inference, where r = lam |x|_1 and nothing is shifted, on a copy of the weights."""

    def __init__(self, optimizer: Sure) -> None:
        self.packed = _packed(optimizer.network)

    def __call__(self, optimizer: Sure, problem: Problem, state: SureState, seen: Seen) -> SureState:
        memory = COORDINATE if state.coordinate_h is not None else ()
        names = (*OLD, *memory)
        step = cuda.direct(sure_step, launch_sure_step)
        made = step(seen.grad, lam_of(problem), [getattr(state, name) for name in names], self.packed)
        new = dict(zip(_made(names, self.packed), made, strict=True))
        if not optimizer.conjugate:
            new |= {"x_before": state.x, "g_before": seen.grad}
        return replace(state, k=state.k + 1, **new)


def _packed(network: SureNetwork) -> list[Tensor]:
    """Gates (14 + instance + 1, 4 instance) and outputs (instance + 1, k) of the instances, the bias in the last row;
    with an LSTM of the coordinates also what they are told (instance + 1, 32), and their own weights."""
    layers = [gate_weights(network.lstm, torch.float32), (network.out.weight, network.out.bias)]
    if network.coordinate:
        gates, bias = gate_weights(network.coordinate_lstm, torch.float32)
        layers.append((network.told.weight, bias))
    packed = [torch.cat([weight.mT, bias.unsqueeze(0)]).detach().contiguous() for weight, bias in layers]
    if network.coordinate:
        own = [gates, network.inner.weight, network.inner.bias, network.heads.weight, network.heads.bias]
        packed.append(torch.cat([part.detach().reshape(-1) for part in own]))
    return packed


def builds(form: Form, optimizer: object) -> list[cuda.Build]:
    """What `SureMove` needs; nothing where it is not made for this optimizer and form."""
    if not isinstance(optimizer, Sure) or not suits_sure(optimizer):
        return []
    network = optimizer.network
    suits = form.penalty is Shape.L1 and not form.shifted and network.coordinate in (0, UNITS)
    if not suits or any(p.dtype != torch.float32 for p in network.parameters()):
        return []
    if not cuda.usable(form.device, form.dtype, 0):
        return []
    return [_build(network.outputs, network.instance, network.coordinate, form.n, cuda.index(form.device))]
