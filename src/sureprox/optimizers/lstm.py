"""The one coordinate-wise network that every learned optimizer shares, and the memory it carries from step to step."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from sureprox.base.errors import InputError
from sureprox.base.words import require_whole
from sureprox.problems import Problem


class InitialState(StrEnum):
    """Where the memory of the LSTM starts. The first two do not depend on the neighbours or the size of the batch."""

    ZEROS = "zeros"
    RANDOM = "random"  # standard normal, one draw per coordinate, the same for every instance (and, without a
    # generator, for every run)
    PAPER = "paper"  # standard normal for every coordinate of every instance, as in the paper


class LSTMWeights(nn.Module):
    """The weights of `torch.nn.LSTM`, names, shapes and initial distribution included, without its forward pass.

    (The fused forward pass of `nn.LSTM` cannot be compiled together with the rest of a step.)
    """

    def __init__(self, inputs: int, hidden: int, layers: int) -> None:
        super().__init__()
        bound = hidden**-0.5
        for layer in range(layers):
            shapes = {
                "weight_ih": (4 * hidden, hidden if layer else inputs),
                "weight_hh": (4 * hidden, hidden),
                "bias_ih": (4 * hidden,),
                "bias_hh": (4 * hidden,),
            }
            for name, shape in shapes.items():
                weight = nn.Parameter(torch.empty(shape).uniform_(-bound, bound))
                self.register_parameter(f"{name}_l{layer}", weight)


class CoordinateNetwork(nn.Module):
    """heads( relu( inner( LSTM( elu( embed(features) ) ) ) ) ), the same weights for every coordinate and instance.

    `embed` and `inner` are optional layers. Weights follow the layout of `torch.nn.LSTM`. They are used in the
    precision of the features, so float32 weights serve float64 problems.
    """

    def __init__(
        self, features: int, hidden: int, layers: int, heads: Sequence[str], embed: bool = False, inner: bool = True
    ) -> None:
        super().__init__()
        for name, value in (("hidden", hidden), ("layers", layers)):
            require_whole(name, value, 1)
        self.hidden = hidden
        self.layers = layers
        self.embed = nn.Linear(features, hidden) if embed else None
        self.lstm = LSTMWeights(hidden if embed else features, hidden, layers)
        self.inner = nn.Linear(hidden, hidden) if inner else None
        self.names = tuple(heads)
        self.heads = nn.ModuleDict({name: nn.Linear(hidden, 1) for name in heads})

    def forward(self, features: Tensor, h: Tensor, c: Tensor) -> tuple[dict[str, Tensor], Tensor, Tensor]:
        """Features (B, n, F) and memory (layers, B n, hidden) to one (B, n) output per head and the new memory."""
        batch, n, width = features.shape
        channel = channel_dim(features.device)
        turn = (lambda memory: memory) if channel == 1 else (lambda memory: memory.mT)
        signal = features.reshape(batch * n, width) if channel == 1 else features.permute(2, 0, 1).reshape(width, -1)
        if self.embed is not None:
            signal = functional.elu(_linear([self.embed], signal, channel))
        hidden, cells = [], []
        for layer in range(self.layers):
            signal, cell = self._cell(layer, signal, turn(h[layer]), turn(c[layer]), channel)
            hidden.append(signal)
            cells.append(cell)
        if self.inner is not None:
            signal = torch.relu(_linear([self.inner], signal, channel))
        heads = _linear([self.heads[name] for name in self.names], signal, channel).unbind(channel)
        outputs = {name: head.view(batch, n) for name, head in zip(self.names, heads, strict=True)}
        return outputs, turn(torch.stack(hidden)), turn(torch.stack(cells))

    def _cell(self, layer: int, signal: Tensor, h: Tensor, c: Tensor, channel: int) -> tuple[Tensor, Tensor]:
        """i, f, g, o = W_ih s + W_hh h + b;  c+ = sigmoid(f) c + sigmoid(i) tanh(g);  h+ = sigmoid(o) tanh(c+)."""
        w_in, w_hidden, b_in, b_hidden = (
            getattr(self.lstm, f"{name}_l{layer}").to(signal.dtype)
            for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        )
        gates = _affine(torch.cat([w_in, w_hidden], 1), b_in + b_hidden, torch.cat([signal, h], channel), channel)
        i, f, g, o = gates.chunk(4, channel)
        cell = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(cell), cell

    def initial_memory(
        self, problem: Problem, kind: InitialState, generator: torch.Generator | None, scale: float = 1.0
    ) -> tuple[Tensor, Tensor]:
        """h and c of shape (layers, B n, hidden) before the first step, laid out as the forward pass returns them.

        `scale`: the standard deviation where they are random.
        """
        turned = channel_dim(problem.device) == 0
        if kind is InitialState.ZEROS:
            rows = problem.batch * problem.n
            shape = (self.layers, self.hidden, rows) if turned else (self.layers, rows, self.hidden)
            zeros = torch.zeros(shape, dtype=problem.dtype, device=problem.device)
            return (zeros.mT, zeros.mT) if turned else (zeros, zeros)
        if generator is None and kind is InitialState.PAPER:
            raise InputError(
                "initial_state is 'paper': a new draw for every instance; pass generator=torch.Generator()"
            )
        source = generator if generator is not None else torch.Generator().manual_seed(0)
        instances = problem.batch if kind is InitialState.PAPER else 1

        def draw() -> Tensor:
            size = (self.layers, self.hidden, instances, problem.n)
            drawn = torch.randn(size, generator=source, dtype=torch.float64, device=source.device)  # in any precision
            values = drawn if scale == 1.0 else scale * drawn
            values = (
                values.to(device=problem.device, dtype=problem.dtype).expand(-1, -1, problem.batch, -1).flatten(2).mT
            )
            return values if turned else values.contiguous()

        return draw(), draw()


def channel_dim(device: torch.device) -> int:
    """Which dimension of the signals counts channels, the other one counting coordinates.

    On a CPU 0: the gates are then contiguous blocks, and a step is twice as fast. On a GPU 1: the library's products
    are faster with coordinates as rows.
    """
    return 0 if device.type == "cpu" else 1


def _linear(layers: Sequence[Any], signal: Tensor, channel: int) -> Tensor:
    """W s + b, several layers stacked into one product."""
    weight = torch.cat([layer.weight for layer in layers]).to(signal.dtype)
    bias = torch.cat([layer.bias for layer in layers]).to(signal.dtype)
    return _affine(weight, bias, signal, channel)


def _affine(weight: Tensor, bias: Tensor, signal: Tensor, channel: int) -> Tensor:
    if channel == 1:
        return torch.addmm(bias, signal, weight.mT)
    return torch.addmm(bias.unsqueeze(1), weight, signal)
