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
from sureprox.training.events import StopTraining, read_log
from sureprox.training.jobs import Ending, Outcome
from sureprox.training.run import TrainingResult
from sureprox.training.stream_config import StreamConfig
from sureprox.training.sweep import Sweep, paper_settings, sweep, with_seeds

__all__ = [
    "Ending",
    "LayerwiseConfig",
    "Loss",
    "Outcome",
    "Recipe",
    "StopTraining",
    "StreamConfig",
    "Sweep",
    "TrainingConfig",
    "TrainingResult",
    "paper_settings",
    "preset",
    "preset_names",
    "read_log",
    "read_recipe",
    "settings",
    "sweep",
    "train",
    "with_seeds",
]
