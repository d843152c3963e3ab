"""What all learned optimizers have in common: weights, their released names, and the arguments that rebuild them."""

import copy
from abc import abstractmethod
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from sureprox.base.errors import InputError, WeightsError
from sureprox.base.types import Scalars
from sureprox.optimizers.base import Optimizer, S, resolve_step_size
from sureprox.problems import Problem
from sureprox.problems.forms import curvature_of

E = TypeVar("E", bound=StrEnum)
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)  # shorter ones are for storage only


class LearnedOptimizer(nn.Module, Optimizer[S]):
    """An optimizer with weights. The module holds only weights; iterates live in the state."""

    kind: ClassVar[str]  # the name used in model names and cards, e.g. "go-math-l2o"
    curvature: float | None = None  # of the logistic problems in training; None: it does not matter

    @property
    @abstractmethod
    def arguments(self) -> dict[str, Any]:
        """The constructor arguments that make this architecture again."""

    def released_names(self) -> dict[str, str]:
        """Parameter name here -> name in the authors' released code."""
        raise WeightsError(f"{self.kind} is not in the released code, so there are no released weights for it")

    @property
    def released_unused(self) -> frozenset[str]:
        """Layers that released checkpoints contain and the method does not use."""
        return frozenset()

    def __repr__(self) -> str:
        """Sure(coordinate=8, instance=32, conjugate=False), 2,345 weights, float32 on cpu."""
        arguments = ", ".join(f"{name}={value!r}" for name, value in self.arguments.items())
        weights = list(self.parameters())
        where = f", {str(weights[0].dtype).removeprefix('torch.')} on {weights[0].device}" if weights else ""
        return f"{type(self).__name__}({arguments}), {sum(w.numel() for w in weights):,} weights{where}"

    def sharing_weights(self, **attributes: Any) -> Self:
        """A copy with the same weights (not copies of them) that differs in these attributes."""
        clone = copy.copy(self)
        vars(clone).update({"_modules": dict(self._modules), **attributes})
        return clone

    def own_step_size(self, problem: Problem, step_size: Any) -> Scalars:
        """1/L, or the step size given, by the L that the weights know: a logistic f can have a sharper one."""
        step = resolve_step_size(problem, step_size)
        given = curvature_of(problem)
        return step if self.curvature is None or given is None else step * (given / self.curvature)

    def check_device(self, problem: Problem) -> None:
        device = next(self.parameters()).device
        if device != problem.device:
            raise InputError(
                f"the optimizer's weights are on {device}, the problem on {problem.device}; "
                f"call optimizer.to('{problem.device}')"
            )

    def load_released(self, state_dict: Mapping[str, Any]) -> None:
        """Take weights under the names of the authors' released code, in their precision."""
        given = {_plain(name): _tensor(name, value) for name, value in state_dict.items()}
        names = self.released_names()
        missing = sorted(set(names.values()) - set(given))
        if missing:
            raise WeightsError(f"released weights for {self.kind} lack {_few(missing)}; is this another model's file?")
        extra = sorted(n for n in set(given) - set(names.values()) if n.rsplit(".", 1)[0] not in self.released_unused)
        if extra:
            raise WeightsError(f"released weights for {self.kind} have unknown {_few(extra)}; is this another model?")
        own = dict(self.named_parameters())
        shaped = {}
        for name, released in names.items():
            value, wanted = given[released], own[name].shape
            if tuple(s for s in value.shape if s != 1) != tuple(s for s in wanted if s != 1):
                raise WeightsError(
                    f"released weight {released} has shape {tuple(value.shape)}; this {self.kind} needs {tuple(wanted)}"
                )
            shaped[name] = value.reshape(wanted)
        self.take(shaped)

    def take(self, weights: Mapping[str, Tensor]) -> None:
        """Replace all weights at once; refuses wrong names, shapes, dtypes and values that are not finite."""
        own = dict(self.named_parameters())
        missing, extra = sorted(set(own) - set(weights)), sorted(set(weights) - set(own))
        if missing or extra:
            problem = f"lack {_few(missing)}" if missing else f"have unknown {_few(extra)}"
            raise WeightsError(f"weights for {self.kind} {problem}; is this another model's file?")
        dtypes = set()
        for name, value in weights.items():
            if value.shape != own[name].shape:
                raise WeightsError(
                    f"weight {name} has shape {tuple(value.shape)}; this {self.kind} needs {tuple(own[name].shape)}"
                )
            if value.dtype not in FLOATS or not bool(torch.isfinite(value).all()):
                raise WeightsError(f"weight {name} is not finite floating point; the file is damaged or badly trained")
            dtypes.add(value.dtype)
        if dtypes:
            self.to(dtype=max(dtypes, key=lambda d: torch.finfo(d).bits))
        with torch.no_grad():
            for name, value in weights.items():
                own[name].copy_(value)


def choice(kind: type[E], name: str, value: Any) -> E:
    """The member of `kind` called `value`; an unknown one gives a line that lists them all."""
    try:
        return kind(value)
    except ValueError:
        raise InputError(f"{name} is {value!r}; choose one of {', '.join(repr(m.value) for m in kind)}") from None


def xavier_(module: nn.Module) -> None:
    """Xavier-uniform matrices, zero biases."""
    for parameter in module.parameters():
        if parameter.ndim >= 2:
            nn.init.xavier_uniform_(parameter)
        else:
            nn.init.zeros_(parameter)


def lstm_names(layers: int, **others: str) -> dict[str, str]:
    """Names of a `CoordinateNetwork`'s parameters: `others` maps our layer to the released layer."""
    lstm = {
        f"network.lstm.{part}_l{layer}": f"lstm.{part}_l{layer}"
        for layer in range(layers)
        for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    }
    linear = {
        f"network.{ours.replace('__', '.')}.{part}": f"{released}.{part}"
        for ours, released in others.items()
        for part in ("weight", "bias")
    }
    return lstm | linear


def _plain(name: str) -> str:
    for prefix in ("param.", "module."):
        name = name.removeprefix(prefix)
    return name


def _tensor(name: str, value: Any) -> Tensor:
    try:
        return value.detach().cpu() if isinstance(value, Tensor) else torch.tensor(np.asarray(value))
    except (TypeError, ValueError) as error:
        raise WeightsError(f"released weight {name} cannot be read as a tensor: {error}") from None


def _few(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
