"""The optimizer of the optimizer: Adam on all weights as one vector, an update that the device itself can refuse."""

from collections.abc import Sequence

import torch
from torch import Tensor

BETA1, BETA2, EPS = 0.9, 0.999, 1e-8


class MetaAdam:
    """w+ = w - a mhat / (sqrt(vhat) + eps), only where the step is sound.

    Whether a step is sound is a tensor, and everything is changed in place under its mask, so that the same code runs
    plainly and inside a captured CUDA graph, where the host cannot look at a value. All weights together are one
    vector of a few thousand numbers: a handful of small kernels per update.
    """

    def __init__(self, parameters: Sequence[Tensor], clip: float) -> None:
        self.parameters = list(parameters)
        self.clip = clip
        size = sum(p.numel() for p in self.parameters)
        like = self.parameters[0]
        self.mean = torch.zeros(size, dtype=like.dtype, device=like.device)
        self.square = torch.zeros_like(self.mean)
        self.count = torch.zeros((), dtype=torch.float64, device=like.device)
        self.rate = torch.zeros((), dtype=torch.float64, device=like.device)

    @torch.no_grad()
    def update(self, gradients: Sequence[Tensor], sound: Tensor, rates: Sequence[float] | None = None) -> Tensor:
        """Take one step where `sound` and the square of the gradient, once clipped, is finite in its precision.

        `rates`: a factor on the rate of each parameter. Returns (norm of the gradient, whether taken).
        """
        gradient = torch.cat([g.reshape(-1) for g in gradients])
        norm = torch.linalg.vector_norm(gradient, dtype=torch.float64)  # the square of a large one overflows float32
        factor = (self.clip / (norm + 1e-6)).clamp(max=1.0) if self.clip > 0 else torch.ones_like(norm)
        sound = sound & ((factor * norm).square() <= torch.finfo(gradient.dtype).max)
        gradient = gradient * factor.to(gradient.dtype)
        count = self.count + 1
        mean = BETA1 * self.mean + (1 - BETA1) * gradient
        square = BETA2 * self.square + (1 - BETA2) * gradient.square()
        corrected = torch.sqrt(square / (1 - BETA2**count).to(square.dtype)) + EPS
        move = (self.rate / (1 - BETA1**count)).to(mean.dtype) * mean / corrected
        if rates is not None and any(rate != 1.0 for rate in rates):
            move = torch.cat([rate * m for rate, m in zip(rates, self._parts(move), strict=True)])
        weights = self.weights()
        self.put(torch.where(sound, weights - move, weights))
        self.mean.copy_(torch.where(sound, mean, self.mean))
        self.square.copy_(torch.where(sound, square, self.square))
        self.count.copy_(torch.where(sound, count, self.count))
        return torch.stack([norm, sound.double()])

    @torch.no_grad()
    def weights(self) -> Tensor:
        """All weights as one vector of their own memory."""
        return torch.cat([p.reshape(-1) for p in self.parameters])

    @torch.no_grad()
    def put(self, weights: Tensor) -> None:
        for parameter, part in zip(self.parameters, self._parts(weights), strict=True):
            parameter.copy_(part.view_as(parameter))

    def _parts(self, vector: Tensor) -> Sequence[Tensor]:
        """The numbers of each parameter."""
        parts: Sequence[Tensor] = vector.split([p.numel() for p in self.parameters])
        return parts

    def state(self) -> dict[str, Tensor]:
        return {"mean": self.mean.clone(), "square": self.square.clone(), "count": self.count.clone()}

    def load(self, state: dict[str, Tensor]) -> None:
        for name in ("mean", "square", "count"):
            getattr(self, name).copy_(state[name])

    def reset(self) -> None:
        for value in (self.mean, self.square, self.count):
            value.zero_()
