"""Random options of `sureprox.solve`, among them optimizers whose weights are garbage."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

import sureprox as sp
from certified_cases import ADVERSARIES, random_weights
from sureprox.optimizers import (
    FISTA,
    ISTA,
    L2ODM,
    L2OPA,
    PANOC,
    Adam,
    GoMathL2O,
    LocalFISTA,
    Optimizer,
    ProxNewton,
    RNNProp,
    SpaRSA,
    Sure,
)
from sureprox.problems import Problem

PRETRAINED = ("sure/lasso", "sure/logistic", "sure/lasso-light")
NETWORKS = (GoMathL2O, L2OPA, L2ODM, RNNProp)
CLASSICAL = {
    "FISTA": FISTA,
    "restarted FISTA": lambda: FISTA(restart=True),
    "ISTA": ISTA,
    "Adam": Adam,
    "local FISTA": LocalFISTA,
    "PANOC": PANOC,
    "SpaRSA": SpaRSA,
    "ProxNewton": lambda: ProxNewton(10),
}


@dataclass(frozen=True)
class Options:
    """What `solve` is given, and the engine."""

    arguments: dict[str, Any]
    engine: str
    text: str


def solved(problem: Problem, options: Options) -> tuple[sp.Solution, bool]:
    """The solution, and whether a `ConvergenceWarning` came with it; any other warning is an error."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("error")
        warnings.simplefilter("always", sp.ConvergenceWarning)
        solution = sp.solve(problem, **options.arguments, engine=options.engine)
    return solution, bool(told)


def random_options(chance: np.random.Generator, problem: Problem) -> Options:
    optimizer, name = _optimizer(chance)
    if isinstance(optimizer, torch.nn.Module):
        optimizer = optimizer.to(problem.dtype)
    certify = ["auto", True, "audit", "cheap", False][chance.choice(5, p=[0.2, 0.3, 0.2, 0.1, 0.2])]
    arguments: dict[str, Any] = {
        "optimizer": optimizer,
        "certify": certify,
        "tol": float(10 ** -chance.uniform(3, 10)),
        "max_iter": int(chance.choice([0, 1, 12, 60, 200, 600, 1000], p=[0.03, 0.03, 0.1, 0.24, 0.3, 0.2, 0.1])),
        "polish": [None, True, False][chance.choice(3, p=[0.5, 0.15, 0.35])],
    }
    start = str(chance.choice(["none", "zero", "random", "far"], p=[0.6, 0.1, 0.2, 0.1]))
    if start != "none":
        size = {"zero": 0.0, "random": 1.0, "far": 10 ** chance.uniform(1, 6)}[start]
        x0 = size * torch.from_numpy(chance.standard_normal((problem.batch, problem.n)))
        arguments["x0"] = x0.to(problem.dtype)
    if chance.random() < 0.15:
        arguments["check_every"] = int(chance.choice([1, 3, 25]))
    if chance.random() < 0.1:
        arguments["floor"] = float(10 ** -chance.uniform(0, 12))
    if chance.random() < 0.1:
        arguments["record"] = ("objective", "gap")
    engine = str(chance.choice(["auto", "kernels", "plain"], p=[0.5, 0.2, 0.3]))
    shown = {key: value for key, value in arguments.items() if key not in ("optimizer", "x0") and value is not None}
    words = ", ".join(f"{key}={value:.2e}" if key == "tol" else f"{key}={value}" for key, value in shown.items())
    return Options(arguments, engine, f"{name}, x0 {start}, {words}, engine {engine}")


def _optimizer(chance: np.random.Generator) -> tuple[Optimizer[Any] | str | None, str]:
    kind = chance.choice(["default", "pretrained", "classical", "garbage", "adversary"], p=[0.3, 0.1, 0.2, 0.3, 0.1])
    if kind == "default":
        return None, "default"
    if kind == "pretrained":
        name = str(chance.choice(PRETRAINED))
        return name, name
    if kind == "classical":
        name = str(chance.choice(list(CLASSICAL)))
        return CLASSICAL[name](), name
    if kind == "adversary":
        name = str(chance.choice(list(ADVERSARIES)))
        return ADVERSARIES[name], name
    seed, scale = int(chance.integers(2**31)), float(chance.choice([1, 5, 30]))
    if chance.random() < 0.5:
        return _garbage_sure(seed, scale), f"sure, random weights x {scale:g}"
    network = NETWORKS[chance.integers(len(NETWORKS))]
    return random_weights(network, seed, scale), f"{network.kind}, random weights x {scale:g}"


def _garbage_sure(seed: int, scale: float) -> Sure:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        made = Sure(coordinate=seed % 2 * 4, instance=8, conjugate=seed % 3 == 0)
    with torch.no_grad():
        for weight in made.parameters():
            noise = torch.randn(weight.shape, generator=torch.Generator().manual_seed(seed))
            weight.copy_(scale * noise)
    return made
