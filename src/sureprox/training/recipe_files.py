"""Recipes as TOML."""

import json
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from sureprox.base.errors import ConfigError
from sureprox.training.config import FAMILIES, Recipe, check_keys, config_dict, described_family, override
from sureprox.training.presets import preset
from sureprox.training.stream_config import StreamConfig

LONGEST_FILE = 50_000  # characters of a config: the time to read some TOML grows with their square


def read_recipe(path: str | Path) -> Recipe:
    """A recipe from TOML: `optimizer`, `[arguments]`, `[family]` with its `name`, `[training]`; all are optional.

    `preset = "..."` at the top starts from a preset; everything else in the file then overrides it.
    """
    return described_recipe(read_toml(path))


def read_toml(path: str | Path) -> dict[str, Any]:
    try:
        text = Path(path).read_text(encoding="utf-8")
        if len(text) > LONGEST_FILE:
            raise ConfigError(f"{path} has {len(text):,} characters; a config has at most {LONGEST_FILE:,}")
        return tomllib.loads(text)
    except ConfigError:
        raise
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:  # not UTF-8, not TOML, or a number of thousands of digits
        raise ConfigError(f"{path} is not TOML: {error}") from None
    except RecursionError:
        raise ConfigError(f"{path} is not TOML that is read here: it is nested too deep") from None


def described_recipe(content: Mapping[str, Any]) -> Recipe:
    """The recipe that the tables of a file describe."""
    check_keys("config", content, ["preset", "optimizer", "arguments", "family", "training"])
    for key in ("arguments", "family", "training"):
        if not isinstance(content.get(key, {}), dict):
            raise ConfigError(f"config key {key!r} must be a table: [{key}]")
    arguments, training = content.get("arguments", {}), content.get("training", {})
    base = preset(content.get("preset", "lasso-7"), content.get("optimizer"), **arguments)
    family = described_family(content.get("family", {}), base.family)
    if base.optimizer == "ada-lista":
        base = replace(base, arguments={**base.arguments, "m": arguments.get("m", family.m)})
    return replace(base, family=family, training=override(base.training, training))


def recipe_text(recipe: Recipe) -> str:
    """The recipe as TOML with every value written out, so that `read_recipe` gives it back whatever the presets are."""
    family: Any = recipe.family
    if type(family) not in FAMILIES.values():
        raise ConfigError(f"family is a {type(family).__name__}; only {', '.join(FAMILIES)} can be written as TOML")
    stream = isinstance(recipe.training, StreamConfig)
    tables = {
        "arguments": recipe.build().arguments,
        "family": {"name": family.name} | asdict(family),
        "training": config_dict(recipe.training),
    }
    lines = [f"preset = {_value('sure-tiny' if stream else 'tiny')}  # all of it is overridden"]
    lines.append(f"optimizer = {_value(recipe.optimizer)}")
    for name, table in tables.items():
        lines += ["", f"[{name}]", *(f"{key} = {_value(value)}" for key, value in table.items())]
    return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    """Strings, numbers and booleans, of which JSON is TOML too; but for the whole numbers among the floats."""
    return repr(value) if isinstance(value, float) else json.dumps(value, allow_nan=False)
