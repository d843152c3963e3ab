"""The step of Sure on problems with r = lam |x|_1 as one kernel, for inference on an NVIDIA GPU."""

from dataclasses import replace

import torch
from torch import Tensor

from sureprox.kernels.runtime import cuda
from sureprox.optimizers import Sure
from sureprox.optimizers.base import Seen
from sureprox.optimizers.sure import SureState
from sureprox.optimizers.sure_network import SureNetwork, gate_weights
from sureprox.problems import Problem
from sureprox.problems.forms import Form, Shape, lam_of

UNITS = 8  # of the LSTM of the coordinates, as in coordinate.cu
MOST_THREADS, FEWEST_THREADS = 256, 64  # of a block, which works on an instance
VECTORS = ("x", "x_before", "g_before", "G_before", "side_before")
NUMBERS = ("G_first", "t", "momentum", "fresh")
INSTANCE = ("instance_h", "instance_c")
COORDINATE = ("coordinate_h", "coordinate_c")
NEW = ("x", "G_before", "side_before", "R", "P", *NUMBERS, *INSTANCE)  # what the kernel makes, in its order


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
    """The tensors of the next state: NEW, COORDINATE if in `old`, and with a fourth output x_before and g_before.

    g (B, n), lam () or (B,), old: step size, then VECTORS, NUMBERS, INSTANCE and, where the coordinates have an LSTM,
    COORDINATE; weights as from `_packed`.
    """
    x, instance, outputs = old[1], old[10].shape[1], weights[1].shape[1]
    made, nothing = [cuda.result(like) for like in _likes(old, outputs)], x.new_empty(0)
    coordinate = UNITS if len(old) == 14 else 0
    absent = [] if coordinate else [nothing] * 2
    given = [value.contiguous() for value in (g, lam, *old)]
    results = [*made[: len(NEW)], *absent, *made[len(NEW) :]]
    results += [nothing] * (15 - len(results))
    kernel = cuda.kernel(*_build(outputs, instance, coordinate, x.shape[1], x.device.index))
    arguments = [*given, *absent, *weights, *absent, *results, x.shape[1], lam.ndim]
    kernel((x.shape[0], 1, 1), (threads(x.shape[1]), 1, 1), arguments)
    return made


def _likes(old: list[Tensor], outputs: int) -> list[Tensor]:
    """What the results look like."""
    x, numbers, memory = old[1], old[6:10], old[10:]
    return [*[x] * 5, *numbers, *memory, *([x, x] if outputs == 4 else [])]


sure_step = torch.library.custom_op("sureprox::sure_step", mutates_args=())(launch_sure_step)


@sure_step.register_fake
def _(g: Tensor, lam: Tensor, old: list[Tensor], weights: list[Tensor]) -> list[Tensor]:
    return [like.new_empty(like.shape) for like in _likes(old, weights[1].shape[1])]


class SureMove:
    """`Sure.move` for inference, where r = lam |x|_1 and nothing is shifted, on a copy of the weights."""

    def __init__(self, optimizer: Sure) -> None:
        self.packed = _packed(optimizer.network)

    def __call__(self, optimizer: Sure, problem: Problem, state: SureState, seen: Seen) -> SureState:
        memory = COORDINATE if state.coordinate_h is not None else ()
        old = [getattr(state, name) for name in ("step_size", *VECTORS, *NUMBERS, *INSTANCE, *memory)]
        names = (*NEW, *memory, *(("x_before", "g_before") if optimizer.conjugate else ()))
        step = cuda.direct(sure_step, launch_sure_step)
        new = dict(zip(names, step(seen.grad, lam_of(problem), old, self.packed), strict=True))
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
    if type(optimizer) is not Sure or type(optimizer.network) is not SureNetwork:
        return []
    network = optimizer.network
    suits = form.penalty is Shape.L1 and not form.shifted and network.coordinate in (0, UNITS)
    if not suits or any(p.dtype != torch.float32 for p in network.parameters()):
        return []
    if not cuda.usable(form.device, form.dtype, 0):
        return []
    return [_build(network.outputs, network.instance, network.coordinate, form.n, cuda.index(form.device))]
