"""How the learned optimizers are trained."""

from sureprox.training.api import train
from sureprox.training.config import LayerwiseConfig, Loss, Recipe, TrainingConfig
from sureprox.training.events import StopTraining, read_log
from sureprox.training.fine_tuning import FineTuned, Trial, fine_tune
from sureprox.training.jobs import Ending, Outcome
from sureprox.training.presets import preset, preset_names, settings
from sureprox.training.recipe_files import read_recipe, recipe_text
from sureprox.training.run import TrainingResult
from sureprox.training.search import Search, search
from sureprox.training.space import Choice, Range, default_space
from sureprox.training.stream_config import StreamConfig
from sureprox.training.study import TrialRow
from sureprox.training.sweep import Sweep, paper_settings, sweep, with_seeds

__all__ = [
    "Choice",
    "Ending",
    "FineTuned",
    "LayerwiseConfig",
    "Loss",
    "Outcome",
    "Range",
    "Recipe",
    "Search",
    "StopTraining",
    "StreamConfig",
    "Sweep",
    "TrainingConfig",
    "TrainingResult",
    "Trial",
    "TrialRow",
    "default_space",
    "fine_tune",
    "paper_settings",
    "preset",
    "preset_names",
    "read_log",
    "read_recipe",
    "recipe_text",
    "search",
    "settings",
    "sweep",
    "train",
    "with_seeds",
]
