"""What a training run is: a frozen config, and the recipe around it."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from enum import StrEnum
from typing import Any

from sureprox.base.errors import ConfigError, SureproxError
from sureprox.base.words import suggested
from sureprox.optimizers import InitialState, LearnedOptimizer
from sureprox.optimizers.kinds import build
from sureprox.sources import (
    AnyStartLasso,
    Family,
    GeneralMixture,
    LassoFamily,
    LassoMixture,
    LogisticFamily,
    LogisticMixture,
    SeparableMixture,
)
from sureprox.sources.form_families import FORM_FAMILIES
from sureprox.training.config_checks import at_least, check_common, check_types
from sureprox.training.given import GivenProblems
from sureprox.training.stream_config import StreamConfig

MIXTURES = (LassoMixture, LogisticMixture, SeparableMixture, GeneralMixture)
FAMILIES: dict[str, type[Any]] = {
    family.name: family for family in (LassoFamily, LogisticFamily, AnyStartLasso, *MIXTURES, *FORM_FAMILIES)
}

LARGEST_CARD = 25_000_000  # entries of a matrix: a card is somebody else's, and its problems are drawn in dozens


class Loss(StrEnum):
    """How the objectives F(x_1), ..., F(x_T) of a segment are weighted."""

    MEAN = "mean"  # 1/T each
    WEIGHTED = "weighted"  # i / (1 + ... + T)

    def weights(self, length: int) -> list[float]:
        if self is Loss.MEAN:
            return [1 / length] * length
        total = length * (length + 1) / 2
        return [i / total for i in range(1, length + 1)]


@dataclass(frozen=True)
class TrainingConfig:
    """Truncated back-propagation: every batch of problems is unrolled `length` steps, `segment` at a time."""

    segment: int = 20  # iterations per back-propagation
    length: int = 100  # iterations per batch of problems
    batch: int = 128  # problems per batch
    batches: int = 500  # batches per epoch
    epochs: int = 3
    learning_rate: float = 0.01
    decay: float = 0.1  # factor on the learning rate after each epoch; 1 keeps it constant
    repeat: bool = False  # the problems of the first epoch, and their starts, come again in every other one
    loss: Loss = Loss.MEAN
    clip: float = 1.0  # largest norm of the gradient of the weights; 0 for no limit
    initial_state: str = "paper"  # of the LSTM while training (see InitialState); drawn anew for every batch
    validate_every: int = 20  # batches between two validations
    validation: int = 128  # problems in the fixed validation set
    checkpoint_every: int = 50  # batches between two checkpoints
    max_failures: int = 50  # batches with a non-finite loss or gradient before the run is given up
    seed: int = 0
    dtype: str = "float32"

    def __post_init__(self) -> None:
        check_types(self)
        at_least(self, 1, "segment", "length", "batch", "batches", "epochs", "validate_every", "validation")
        check_common(self)
        if self.initial_state not in list(InitialState):
            known = ", ".join(repr(kind.value) for kind in InitialState)
            raise ConfigError(f"initial_state is {self.initial_state!r}; choose one of {known}")
        if self.length % self.segment:
            raise ConfigError(f"length is {self.length}; it must be a multiple of segment, which is {self.segment}")
        if not 0 < self.decay <= 1:
            raise ConfigError(f"decay is {self.decay}; it must lie in (0, 1], and 1 keeps the rate constant")

    @property
    def total_batches(self) -> int:
        return self.epochs * self.batches

    def rate(self, batch: int) -> float:
        """Learning rate of a batch, counted from 0 over all epochs."""
        return self.learning_rate * self.decay ** (batch // self.batches)


@dataclass(frozen=True)
class LayerwiseConfig:
    """Layer-by-layer training of Ada-LISTA: three stages for each layer, on a fixed pool of problems."""

    layers: int = 10
    steps: int = 200  # updates per stage; at most so many, with `patience`
    batch: int = 64  # problems per update
    pool: int = 32  # different batches
    learning_rate: float = 0.003
    decay: float = 0.2  # factor on the learning rate of the second stage
    last_decay: float = 0.04  # and on that of the third
    layer_decay: float = 1.0  # factor on that of a layer for each layer above it; for W1 and W2 for each layer
    matrices_first: bool = False  # whether the first stage learns W1 and W2 beside the new layer
    relative: bool = True  # the loss is |x - x*|^2 / |x*|^2; otherwise |x - x*|^2
    patience: int = 0  # passes over the pool without a better validation that end a stage; 0: never
    clip: float = 1.0
    validate_every: int = 200
    validation: int = 128
    checkpoint_every: int = 200
    max_failures: int = 50
    seed: int = 0
    dtype: str = "float32"

    def __post_init__(self) -> None:
        check_types(self)
        at_least(self, 1, "layers", "steps", "batch", "pool", "validate_every", "validation")
        at_least(self, 0, "patience")
        check_common(self)
        for name in ("decay", "last_decay", "layer_decay"):
            if not 0 < getattr(self, name) <= 1:
                raise ConfigError(f"{name} is {getattr(self, name)}; it must lie in (0, 1]")

    @property
    def total_batches(self) -> int:
        return self.layers * 3 * self.steps

    def position(self, batch: int) -> tuple[int, int, int]:
        """(layer, stage, step within the stage) of a batch, all counted from 0."""
        stages, step = divmod(batch, self.steps)
        return min(stages // 3, self.layers - 1), stages % 3, step

    def rate(self, batch: int) -> float:
        """Learning rate of a batch: smaller from stage to stage, the same for every layer."""
        return self.learning_rate * (1.0, self.decay, self.last_decay)[self.position(batch)[1]]


Config = TrainingConfig | LayerwiseConfig | StreamConfig


@dataclass(frozen=True)
class Recipe:
    """Everything that defines a training run: which optimizer, on which problems, how."""

    optimizer: str
    arguments: dict[str, Any]
    family: Family
    training: Config

    def build(self) -> LearnedOptimizer[Any]:
        """A fresh optimizer; its initial weights are drawn from torch's default generator."""
        try:
            return build(self.optimizer, self.arguments)
        except SureproxError as error:
            raise ConfigError(str(error)) from None

    def as_dict(self) -> dict[str, Any]:
        return {
            "optimizer": self.optimizer,
            "arguments": dict(self.arguments),
            "family": family_dict(self.family),
            "training": config_dict(self.training),
        }


def family_dict(family: Family) -> dict[str, Any]:
    """A family by name and numbers, as in TOML and in cards; one of the user's own need not have either."""
    name = getattr(family, "name", type(family).__name__)
    if isinstance(family, GivenProblems):
        return {"name": name} | family.described
    return {"name": name} | (asdict(family) if is_dataclass(family) else {})


def config_dict(config: Config) -> dict[str, Any]:
    return {key: value.value if isinstance(value, StrEnum) else value for key, value in asdict(config).items()}


def override(config: Config, changes: Mapping[str, Any]) -> Config:
    """The config with these values in place of its own; an unknown key is an error."""
    check_keys("training", changes, [f.name for f in fields(config)])
    return replace(config, **changes)


def card_family(table: Mapping[str, Any]) -> Family:
    """The family that a card describes, so that it can be sampled again."""
    if "name" not in table:
        raise ConfigError("the card does not say which family of problems the weights were trained on")
    found = described_family(table, LassoFamily())
    if found.m * found.n > LARGEST_CARD:
        raise ConfigError(f"the card speaks of problems of {found.m} x {found.n}, too large to draw here")
    drawn: Family = found
    return drawn


def described_family(table: Mapping[str, Any], default: Any) -> Any:
    """The family that a table names; numbers it does not give are those of `default`, if that has the same name."""
    numbers = {key: value for key, value in table.items() if key != "name"}
    name = table.get("name", default.name)
    if name not in list(FAMILIES):
        raise ConfigError(f"family is {name!r}; {suggested(name, sorted(FAMILIES))}")
    known = {f.name: f.type for f in fields(FAMILIES[name])}
    check_keys("family", numbers, list(known))
    for key, value in numbers.items():
        if isinstance(value, bool) or not isinstance(value, int if known[key] in (int, "int") else (int, float)):
            raise ConfigError(f"family key {key!r} is {value!r}; it must be a number of type {known[key]}")
    base = default if name == default.name else FAMILIES[name]()
    try:
        return replace(base, **numbers)
    except SureproxError as error:
        raise ConfigError(str(error)) from None


def check_keys(where: str, table: Mapping[str, Any], known: list[str]) -> None:
    for key in table:
        if key not in known:
            raise ConfigError(f"unknown {where} key {key!r}; {suggested(key, known)}")
