"""The one coordinate-wise network that every learned optimizer shares, and the memory it carries from step to step."""

from collections.abc import Sequence
from enum import StrEnum

import torch
from torch import Tensor, nn
from torch.nn import functional

from sureprox.errors import InputError
from sureprox.problems import Problem


class InitialState(StrEnum):
    """Where the memory of the LSTM starts. The first two do not depend on the neighbours or the size of the batch."""

    ZEROS = "zeros"
    RANDOM = "random"  # standard normal, one draw per coordinate, the same for every instance
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
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise InputError(f"{name} is {value!r}; it must be a whole number >= 1")
        self.hidden = hidden
        self.layers = layers
        self.embed = nn.Linear(features, hidden) if embed else None
        self.lstm = LSTMWeights(hidden if embed else features, hidden, layers)
        self.inner = nn.Linear(hidden, hidden) if inner else None
        self.heads = nn.ModuleDict({name: nn.Linear(hidden, 1) for name in heads})

    def forward(self, features: Tensor, h: Tensor, c: Tensor) -> tuple[dict[str, Tensor], Tensor, Tensor]:
        """Features (B, n, F) and memory (layers, B n, hidden) to one (B, n) output per head and the new memory."""
        batch, n, width = features.shape
        signal = features.reshape(batch * n, width)
        if self.embed is not None:
            signal = functional.elu(_linear(self.embed, signal))
        memories = []
        for layer in range(self.layers):
            signal, cell = self._cell(layer, signal, h[layer], c[layer])
            memories.append((signal, cell))
        if self.inner is not None:
            signal = torch.relu(_linear(self.inner, signal))
        outputs = {name: _linear(head, signal).view(batch, n) for name, head in self.heads.items()}
        return outputs, torch.stack([m[0] for m in memories]), torch.stack([m[1] for m in memories])

    def _cell(self, layer: int, signal: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        """i, f, g, o = W_ih s + W_hh h + b;  c+ = sigmoid(f) c + sigmoid(i) tanh(g);  h+ = sigmoid(o) tanh(c+)."""
        w_in, w_hidden, b_in, b_hidden = (
            getattr(self.lstm, f"{name}_l{layer}").to(signal.dtype)
            for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        )
        gates = torch.addmm(b_in + b_hidden, torch.cat([signal, h], 1), torch.cat([w_in, w_hidden], 1).t())
        i, f, g, o = gates.chunk(4, 1)
        cell = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(cell), cell

    def initial_memory(
        self, problem: Problem, kind: InitialState, generator: torch.Generator | None
    ) -> tuple[Tensor, Tensor]:
        """h and c of shape (layers, B n, hidden) before the first step."""
        shape = (self.layers, problem.batch * problem.n, self.hidden)
        if kind is InitialState.ZEROS:
            zeros = torch.zeros(shape, dtype=problem.dtype, device=problem.device)
            return zeros, zeros
        if generator is None:
            raise InputError(f"initial_state is {kind.value!r}, which is random; pass generator=torch.Generator()")
        instances = problem.batch if kind is InitialState.PAPER else 1

        def draw() -> Tensor:
            size = (self.layers, instances, problem.n, self.hidden)
            values = torch.randn(size, generator=generator, dtype=problem.dtype, device=generator.device)
            return values.to(problem.device).expand(-1, problem.batch, -1, -1).reshape(shape)

        return draw(), draw()


def _linear(layer: nn.Module, signal: Tensor) -> Tensor:
    assert isinstance(layer, nn.Linear)
    return functional.linear(signal, layer.weight.to(signal.dtype), layer.bias.to(signal.dtype))
