"""How the learned optimizers are trained."""

from sureprox.training.api import train
from sureprox.training.config import (
    LayerwiseConfig,
    Loss,
    Recipe,
    TrainingConfig,
    preset,
    preset_names,
    read_recipe,
    settings,
)
from sureprox.training.events import read_log
from sureprox.training.run import TrainingResult
from sureprox.training.stream_config import StreamConfig

__all__ = [
    "LayerwiseConfig",
    "Loss",
    "Recipe",
    "StreamConfig",
    "TrainingConfig",
    "TrainingResult",
    "preset",
    "preset_names",
    "read_log",
    "read_recipe",
    "settings",
    "train",
]
