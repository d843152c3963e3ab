"""What a manifest says about how problems were solved, so that a later run can tell whether it does the same."""

import hashlib
from typing import Any

import numpy as np
import torch

from sureprox.optimizers import Optimizer
from sureprox.sources.problem_files import Asked

ALWAYS = ("kind", "dtype", "lam", "lam_ratio")
NUMBERS = ("lam", "lam_ratio", "l1", "l2", "groups")


def described(optimizer: Optimizer[Any] | str | None) -> str:
    """Enough to tell whether an earlier run used the same: its name, or its kind, values and weights."""
    if optimizer is None:
        return "default"
    if isinstance(optimizer, str):
        return optimizer
    inner = getattr(optimizer, "optimizer", None)
    values = {name: value for name, value in vars(optimizer).items() if isinstance(value, bool | int | float | str)}
    text = ", ".join(f"{name}={value}" for name, value in sorted(values.items()) if not name.startswith("_"))
    if isinstance(optimizer, torch.nn.Module):
        digest = hashlib.sha256()
        for name, weights in sorted(optimizer.state_dict().items()):
            digest.update(name.encode())
            digest.update(np.ascontiguousarray(weights.detach().cpu().numpy()).data)
        text += f", weights={digest.hexdigest()[:16]}"
    if isinstance(inner, Optimizer):
        text += f", {described(inner)}"
    return f"{type(optimizer).__name__}({text.removeprefix(', ')})"


def understood(asked: Asked) -> dict[str, Any]:
    """Every option that says how arrays are understood; several numbers by their digest.

    What is not used is left out, but for four names, so that runs begun before it existed go on.
    """
    facts: dict[str, Any] = {}
    for name, value in vars(asked).items():
        if name in NUMBERS:
            fact = _number_fact(value)
        else:
            fact = None if value is None else value if isinstance(value, bool | int | float) else str(value)
        if name in ALWAYS or fact not in (None, False):
            facts[name] = fact
    return facts


def _number_fact(value: Any) -> Any:
    if value is None or not np.ndim(value):
        return None if value is None else float(value)
    content = np.ascontiguousarray(np.asarray(value, dtype=np.float64))
    return f"sha256 {hashlib.sha256(content.data).hexdigest()}"
