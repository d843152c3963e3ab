"""Checks that all training configs share: types and ranges."""

from enum import StrEnum
from typing import Any, get_type_hints

from sureprox.base.errors import ConfigError


def check_types(config: Any) -> None:
    for name, kind in get_type_hints(type(config)).items():
        value = getattr(config, name)
        if issubclass(kind, StrEnum):
            if value not in list(kind):
                raise ConfigError(f"{name} is {value!r}; choose one of {', '.join(repr(m.value) for m in kind)}")
            object.__setattr__(config, name, kind(value))
        elif kind is bool:
            if not isinstance(value, bool):
                raise ConfigError(f"{name} is {value!r}; it must be true or false")
        elif isinstance(value, bool) or not isinstance(value, int | float if kind is float else kind):
            raise ConfigError(f"{name} is {value!r}; it must be of type {kind.__name__}")
        elif kind is float:
            object.__setattr__(config, name, float(value))


def at_least(config: Any, least: int, *names: str) -> None:
    for name in names:
        if getattr(config, name) < least:
            raise ConfigError(f"{name} is {getattr(config, name)}; it must be at least {least}")


def check_common(config: Any) -> None:
    at_least(config, 1, "checkpoint_every")
    at_least(config, 0, "max_failures", "seed")
    if not 0 < config.learning_rate < float("inf"):
        raise ConfigError(f"learning_rate is {config.learning_rate}; it must be a number > 0")
    if not 0 <= config.clip < float("inf"):
        raise ConfigError(f"clip is {config.clip}; it must be >= 0, and 0 means no limit")
    if config.dtype not in ("float32", "float64"):
        raise ConfigError(f"dtype is {config.dtype!r}; choose 'float32' or 'float64'")
