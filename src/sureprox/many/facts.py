"""What a manifest says about how problems were solved, so that a later run can tell whether it does the same."""

import hashlib
from typing import Any

import numpy as np
import torch

from sureprox.many.parts import Reading
from sureprox.optimizers import Optimizer


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


def understood(reading: Reading) -> dict[str, Any]:
    facts: dict[str, Any] = {"kind": reading.kind, "dtype": None if reading.dtype is None else str(reading.dtype)}
    for name in ("lam", "lam_ratio"):
        value = getattr(reading, name)
        if value is not None and np.ndim(value):
            content = np.ascontiguousarray(np.asarray(value, dtype=np.float64))
            facts[name] = f"sha256 {hashlib.sha256(content.data).hexdigest()}"
        else:
            facts[name] = None if value is None else float(value)
    return facts
