"""What a search varies: for each key a range or a choice, checked against the recipe before any run."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, get_type_hints

from sureprox.base.errors import ConfigError, SureproxError
from sureprox.training.api import check_fit
from sureprox.training.config import LayerwiseConfig, Recipe, check_keys, config_dict, override
from sureprox.training.stream_config import StreamConfig

ARGUMENTS = "arguments."  # before the names of the optimizer's arguments
# What decides how a run is measured, or how it is kept: runs that differ in it cannot be compared.
FIXED = ("seed", "dtype", "initial_state", "length", "validate_every", "validation", "checkpoint_every", "max_failures")

Value = int | float | str | bool


@dataclass(frozen=True)
class Range:
    """Numbers from `low` to `high`, whole ones if both are; evenly on a log scale with `log`, or `step` apart."""

    low: int | float
    high: int | float
    log: bool = False
    step: int | float | None = None

    @property
    def whole(self) -> bool:
        return isinstance(self.low, int) and isinstance(self.high, int)

    def ends(self) -> tuple[Value, ...]:
        return (self.low, self.high)

    def holds(self, value: Value) -> bool:
        return not isinstance(value, str | bool) and self.low <= value <= self.high


@dataclass(frozen=True)
class Choice:
    """One of these values."""

    values: tuple[Value, ...]

    def ends(self) -> tuple[Value, ...]:
        return self.values

    def holds(self, value: Value) -> bool:
        return value in self.values


Space = Mapping[str, Range | Choice]


def default_space(recipe: Recipe) -> dict[str, Range | Choice]:
    """Learning rate over two decades around that of the recipe, its decay, clipping, segments, weights, width."""
    config = recipe.training
    rate = config.learning_rate
    found: dict[str, Range | Choice] = {"learning_rate": Range(rate / 10, rate * 10, log=True)}
    found["clip"] = Choice((0.0, 0.1, 1.0, 10.0))
    if isinstance(config, StreamConfig):
        found |= {"segment": Choice((10, 20, 40)), "flow": Range(1.0, 100.0, log=True)}
        return found | {ARGUMENTS + "instance": Choice((16, 32, 64)), ARGUMENTS + "coordinate": Choice((0, 4, 8, 16))}
    if isinstance(config, LayerwiseConfig) or config.epochs > 1:
        found["decay"] = Range(0.05, 1.0, log=True)
    if isinstance(config, LayerwiseConfig):
        return found
    lengths = tuple(length for length in (5, 10, 20, 50, 100) if config.length % length == 0)
    found |= {"segment": Choice(lengths or (config.segment,)), "loss": Choice(("mean", "weighted"))}
    return found | {ARGUMENTS + "hidden": Choice((10, 20, 40))}


def read_space(table: Any) -> dict[str, Range | Choice]:
    """A space from the table [search] of a file: KEY = [...], or KEY = {low = ..., high = ...}, also log and step."""
    if not isinstance(table, Mapping) or not table:
        raise ConfigError(
            "the table [search] must name what is varied, such as learning_rate = {low = 0.001, high = 0.1}"
        )
    entries = {key: value for key, value in table.items() if key != "arguments"}
    inner = table.get("arguments", {})
    if not isinstance(inner, Mapping):
        raise ConfigError("search key 'arguments' must be a table of the optimizer's arguments")
    entries |= {ARGUMENTS + key: value for key, value in inner.items()}
    return {key: _entry(key, value) for key, value in entries.items()}


def check_space(space: Space, recipe: Recipe) -> None:
    """Every key is known and may be searched, and the recipe can be trained with each end of it alone."""
    names = {f.name for f in fields(recipe.training)} - set(FIXED)
    known = sorted(names) + [ARGUMENTS + name for name in recipe.build().arguments]
    if not space:
        raise ConfigError("the search varies nothing; give at least one range")
    for key, entry in space.items():
        if key in FIXED:
            raise ConfigError(f"search key {key!r} is not varied: runs that differ in it cannot be compared")
        check_keys("search", {key: entry}, known)
        if not isinstance(entry, Range | Choice):
            raise ConfigError(f"search key {key!r} is a {type(entry).__name__}; pass a Range or a Choice")
        _check_entry(key, entry)
        if isinstance(entry, Range) and not entry.whole and get_type_hints(type(recipe.training)).get(key) is int:
            raise ConfigError(f"search key {key!r} is varied over numbers that are not whole; {key} must be whole")
        for value in entry.ends():
            try:
                changed = applied(recipe, {key: value})
                check_fit(changed.build(), changed.family, changed.training)
            except SureproxError as error:
                raise ConfigError(f"search key {key!r} reaches {value!r}, which cannot be trained: {error}") from None


def applied(recipe: Recipe, values: Mapping[str, Value]) -> Recipe:
    """The recipe with these values in place of its own."""
    arguments = {key.removeprefix(ARGUMENTS): value for key, value in values.items() if key.startswith(ARGUMENTS)}
    training = {key: value for key, value in values.items() if not key.startswith(ARGUMENTS)}
    return replace(recipe, arguments={**recipe.arguments, **arguments}, training=override(recipe.training, training))


def values_of(recipe: Recipe, space: Space) -> dict[str, Value]:
    """The recipe's own values of these keys, without those that lie outside."""
    arguments = {ARGUMENTS + name: value for name, value in recipe.build().arguments.items()}
    own = config_dict(recipe.training) | arguments
    return {key: own[key] for key, entry in space.items() if entry.holds(own[key])}


def space_dict(space: Space) -> dict[str, Any]:
    """Plain values, to tell one space from another."""
    return {
        key: list(entry.values) if isinstance(entry, Choice) else asdict(entry) for key, entry in sorted(space.items())
    }


def _entry(key: str, value: Any) -> Range | Choice:
    if isinstance(value, list):
        entry: Range | Choice = Choice(tuple(value))
    elif isinstance(value, Mapping):
        check_keys(f"search.{key}", value, ["low", "high", "log", "step"])
        if "low" not in value or "high" not in value:
            raise ConfigError(f"search key {key!r} needs both low and high, or a list of values")
        entry = Range(**value)
    else:
        raise ConfigError(f"search key {key!r} is {value!r}; write a list of values, or {{low = ..., high = ...}}")
    _check_entry(key, entry)
    return entry


def _check_entry(key: str, entry: Range | Choice) -> None:
    if isinstance(entry, Choice):
        if not entry.values or not all(isinstance(value, int | float | str) for value in entry.values):
            raise ConfigError(f"search key {key!r} must list at least one string, number or boolean")
        return
    for name in ("low", "high", "step"):
        number = getattr(entry, name)
        if number is None and name == "step":
            continue
        if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number):
            raise ConfigError(f"search key {key!r} has {name} = {number!r}; it must be a number")
    if not entry.low < entry.high:
        raise ConfigError(f"search key {key!r} has low = {entry.low} and high = {entry.high}; low must be smaller")
    if not isinstance(entry.log, bool):
        raise ConfigError(f"search key {key!r} has log = {entry.log!r}; it must be true or false")
    if entry.log and entry.low <= 0:
        raise ConfigError(f"search key {key!r} has low = {entry.low} on a log scale; it must be > 0")
    if entry.step is not None and (entry.log or entry.step <= 0 or (entry.whole and not isinstance(entry.step, int))):
        raise ConfigError(
            f"search key {key!r} has step = {entry.step!r}; it must be > 0, whole if the ends are, without log"
        )
