"""One model on fresh problems of a family: as in training, from a moved start, with a moved objective."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from sureprox.base.errors import ConfigError, InputError
from sureprox.base.names import PRETRAINED
from sureprox.evaluation.battery import Battery, Plan
from sureprox.evaluation.battery_kinds import Draw, Kind
from sureprox.evaluation.battery_records import KindRecord
from sureprox.evaluation.scenarios import Move, Scenario
from sureprox.optimizers import read_card
from sureprox.optimizers.weights import locate
from sureprox.sources import Family
from sureprox.training.config import FAMILIES, card_family

MOVES = {"s": Move.START, "t": Move.OBJECTIVE}
DEFAULT = ("ind", "s=10", "t=10")


def parse_move(text: str) -> tuple[Move, float]:
    """ "ind", "s=10" (the start moved by 10) or "t=-20" (the objective moved by -20)."""
    key, equals, value = (part.strip() for part in text.partition("="))
    if key == "ind" and not equals:
        return Move.NONE, 0.0
    try:
        shift = float(value)
    except ValueError:
        shift = 0.0
    if key not in MOVES or not 0 < abs(shift) < float("inf"):
        raise InputError(f"scenario is {text!r}; write ind, s=NUMBER or t=NUMBER, the number not 0")
    return MOVES[key], shift


def chosen_family(name: str | None, model: str) -> Family:
    """The family of this name at its usual size, or the one that the card of the model describes."""
    if name is None:
        try:
            return card_family(read_card(model).family)
        except ConfigError as error:
            known = ", ".join(FAMILIES)
            raise InputError(f"{model} cannot be given problems of its own: {error}; choose --family {known}") from None
    if name not in FAMILIES:
        raise InputError(f"family is {name!r}; choose one of {', '.join(FAMILIES)}")
    made: Family = FAMILIES[name]()
    return made


def evaluate(
    model: str,
    family: Family,
    moves: Sequence[tuple[Move, float]],
    plan: Plan,
    device: torch.device,
    told: Callable[[KindRecord], None] = lambda record: None,
    against: Sequence[str] = (),
) -> list[KindRecord]:
    """First iterations at each level of restarted FISTA, FISTA, the model and others, alone, in each scenario.

    The problems are the same in all scenarios, and no training run has seen them. `model` and each of `against`: a
    pretrained name or the path of a model.
    """
    models = _located([model, *against])

    def named(record: KindRecord) -> KindRecord:
        return replace(record, optimizer=models.get(record.optimizer, record.optimizer))

    def heard(found: KindRecord | str) -> None:
        if isinstance(found, KindRecord):
            told(named(found))
        else:
            raise InputError(found)

    with TemporaryDirectory() as cache:
        battery = Battery(plan, Path(cache), device, None, tuple(models))
        return [named(record) for move in moves for record in battery.run(_kind(family, *move), heard)]


def _located(models: Sequence[str]) -> dict[str, str]:
    """Of each model what `load` takes, and what it is called: KIND/NAME, or its path where two would share that."""
    found: dict[str, str] = {}
    for model in models:
        read_card(model)  # refuses what is not there
        stem = locate(model)
        shipped = stem.is_relative_to(PRETRAINED)
        path = stem.relative_to(PRETRAINED).as_posix() if shipped else stem.resolve().as_posix()
        short = "/".join(Path(path).parts[-2:])
        found[path] = path if short in found.values() and path not in found else short
    return found


def _kind(family: Family, move: Move, shift: float) -> Kind:
    """The family in a scenario, as a kind of problem of the battery."""
    name = getattr(family, "name", type(family).__name__)
    source = "logistic" if "logistic" in name else "lasso"
    scenario = Scenario(source, move, shift)

    def sample(count: int, generator: torch.Generator) -> Draw:
        problem = family.sample(count, generator, torch.float64)
        start = family.start(count, generator, torch.float64)
        return Draw(scenario.problem(problem), scenario.start(start), f"{family}, {scenario.name}")

    return Kind(scenario.name.replace(source, name, 1), source, move is Move.NONE, sample)
