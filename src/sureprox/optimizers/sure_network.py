"""The network of Sure: one LSTM for each instance and one, told what the first has learned, for each coordinate."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from sureprox.base.errors import InputError
from sureprox.optimizers.learned import xavier_
from sureprox.optimizers.lstm import LSTMWeights
from sureprox.optimizers.sure_place import SEEN, Features

Memory = tuple[Tensor, Tensor]  # h, c


class SureNetwork(nn.Module):
    """outputs = W_o H + heads( relu( inner( LSTM(coordinate features; gates + W_e H) ) ) ),  H = LSTM(instance).

    `coordinate=0` leaves the second term out: every coordinate of an instance then gets the same. The first outputs of
    an untrained network are small, and its forget gates open.
    """

    def __init__(self, instance: int, coordinate: int, outputs: int, features: Features = Features.ABSOLUTE) -> None:
        super().__init__()
        for name, value, least in (("instance", instance, 1), ("coordinate", coordinate, 0)):
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise InputError(f"{name} is {value!r}; it must be a whole number >= {least}")
        self.instance = instance
        self.coordinate = coordinate
        self.outputs = outputs
        self.lstm = LSTMWeights(SEEN[features][0], instance, 1)
        self.out = nn.Linear(instance, outputs)
        if coordinate:
            self.told = nn.Linear(instance, 4 * coordinate, bias=False)
            self.coordinate_lstm = LSTMWeights(SEEN[features][1], coordinate, 1)
            self.inner = nn.Linear(coordinate, coordinate)
            self.heads = nn.Linear(coordinate, outputs)
        xavier_(self)
        with torch.no_grad():
            for name, weight in self.named_parameters():
                if name.endswith("bias_ih_l0"):
                    weight[len(weight) // 4 : len(weight) // 2] = 1.0  # the forget gate
                elif name in ("out.weight", "heads.weight"):
                    weight.mul_(0.1)

    def instances(self, features: Tensor, memory: Memory) -> tuple[Tensor, Memory]:
        """Features (B, 14 or 16) to outputs (B, k, 1) and the new memory, (B, instance) each."""
        weight, bias = gate_weights(self.lstm, features.dtype)
        gates = torch.addmm(bias, torch.cat([features, memory[0]], 1), weight.mT)
        h, c = _cell(gates, memory[1])
        return functional.linear(h, *_cast(self.out, h.dtype)).unsqueeze(2), (h, c)

    def coordinates(
        self, features: tuple[Tensor, ...], told: Tensor, base: Tensor, memory: Memory
    ) -> tuple[Tensor, Memory]:
        """Blocks of features, h of the instances and their outputs to outputs (B, k, n), memory (B, coordinate, n)."""
        weight, bias = gate_weights(self.coordinate_lstm, told.dtype)
        hint = functional.linear(told, self.told.weight.to(told.dtype), bias)
        gates = _affine(weight, hint.unsqueeze(2), torch.cat([*features, memory[0]], 1))
        h, c = _cell(gates, memory[1])
        weight, bias = _cast(self.inner, h.dtype)
        signal = torch.relu(_affine(weight, bias.view(1, -1, 1), h))
        weight, bias = _cast(self.heads, h.dtype)
        return _affine(weight, base + bias.view(1, -1, 1), signal), (h, c)


def _cell(gates: Tensor, c: Tensor) -> Memory:
    """i, f, g, o = gates;  c+ = sigmoid(f) c + sigmoid(i) tanh(g);  h+ = sigmoid(o) tanh(c+)."""
    i, f, g, o = gates.chunk(4, 1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


def _affine(weight: Tensor, bias: Tensor, signal: Tensor) -> Tensor:
    """W s + b for every instance; signal (B, channels, n), bias broadcast to it."""
    return torch.baddbmm(bias, weight.expand(signal.shape[0], -1, -1), signal)


def gate_weights(lstm: Any, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """[W_ih, W_hh] and b_ih + b_hh."""
    weight = torch.cat([lstm.weight_ih_l0, lstm.weight_hh_l0], 1)
    return weight.to(dtype), lstm.bias_ih_l0.to(dtype) + lstm.bias_hh_l0.to(dtype)


def _cast(layer: nn.Linear, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    return layer.weight.to(dtype), layer.bias.to(dtype)
