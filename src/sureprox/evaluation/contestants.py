"""The optimizers of the figures, by name: hand-made ones, and learned ones from the package, a directory or a file."""

import hashlib
import inspect
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from sureprox.base.errors import SureproxError
from sureprox.optimizers import FISTA, ISTA, AdaLISTA, Adam, AdamHD, Optimizer, load, pretrained, read_card
from sureprox.problems import Problem
from sureprox.problems.forms import Loss, form_of, loss_of

CLASSICAL: dict[str, type[Any]] = {
    "ista": ISTA,
    "fista": FISTA,
    "fista-restart": FISTA,
    "adam": Adam,
    "adam-hd": AdamHD,
}
FIXED: dict[str, dict[str, Any]] = {"ista": {}, "fista": {"restart": False}, "fista-restart": {"restart": True}}


class UnavailableError(SureproxError):
    """A curve that cannot be run here; the message is the reason that the figure gives."""


@dataclass(frozen=True)
class Contestant:
    """An optimizer and what identifies it: its settings, or the hash of its weights."""

    name: str
    optimizer: Optimizer[Any]
    settings: Mapping[str, Any]
    weights: str | None = None  # sha256
    path: str | Path | None = None  # of the weights
    code: str = ""  # a hash of what runs, where that is not of this package


def classical(name: str, settings: Mapping[str, Any]) -> Contestant:
    """A hand-made optimizer."""
    return Contestant(name, CLASSICAL[name](**settings), dict(settings))


def learned(name: str, device: torch.device, directory: Path | None = None) -> Contestant:
    """A learned optimizer: DIRECTORY/name, or the run DIRECTORY/name/model, if there; else a shipped one, or a path."""
    path: str | Path = name
    own = [] if directory is None else [directory / name, directory / name / "model"]
    found = [stem for stem in own if stem.with_name(f"{stem.name}.safetensors").is_file()]
    if found:
        path = found[0]
    elif name not in pretrained() and not os.path.isfile(f"{name.removesuffix('.safetensors')}.safetensors"):
        raise UnavailableError(f"no pretrained {name}")
    card = read_card(path)
    optimizer = load(path, device)
    return Contestant(name, optimizer, card.arguments, card.sha256, path, code_of(optimizer))


def code_of(optimizer: Optimizer[Any]) -> str:
    """A hash of the source of an optimizer of the user's own, so that a curve is not kept when the code has changed."""
    if type(optimizer).__module__.startswith("sureprox."):
        return ""
    try:
        return hashlib.sha256(inspect.getsource(type(optimizer)).encode()).hexdigest()
    except (OSError, TypeError):  # typed into a session: there is no file
        return "unknown"


def require_fit(contestant: Contestant, problem: Problem) -> None:
    """Ada-LISTA is trained for one number of rows and has nothing to say about others."""
    optimizer, f = contestant.optimizer, problem.f
    if not isinstance(optimizer, AdaLISTA):
        return
    same = loss_of(problem) is (Loss.LOGISTIC if optimizer.labels else Loss.SQUARES)
    if not (same and form_of(problem).m == optimizer.m):
        rows = f"{form_of(problem).m} rows" if same else type(f).__name__
        raise UnavailableError(f"{contestant.name} is trained for {optimizer.m} rows, these problems have {rows}")
