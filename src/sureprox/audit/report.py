"""`audit`: every statement on random material, and what the theory says about trained optimizers on their problems."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from sureprox.audit.counterexamples import Counterexample
from sureprox.audit.counterexamples_horizon import counterexamples
from sureprox.audit.drawn_networks import Kind
from sureprox.audit.models import SCENARIOS, Growth, ModelAudit, Scenario, Setting, audit_model, growth, setting
from sureprox.audit.trials import Tally, grid, try_all
from sureprox.base.errors import InputError
from sureprox.base.files import write_atomically
from sureprox.base.words import require_whole
from sureprox.optimizers import load, pretrained, read_card
from sureprox.training.config import FAMILIES, card_family

MODELS = ("go-math-l2o/lasso", "l2o-pa/lasso")
SHIFTS = (0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)


@dataclass(frozen=True)
class AuditReport:
    """Everything the audit has found; `sureprox.audit.text` and `figures` show it."""

    tallies: Mapping[str, Tally]
    counterexamples: Mapping[str, Counterexample]
    models: Sequence[ModelAudit]
    growths: Sequence[Growth]
    notes: Sequence[str]  # what was left out, one line each
    instances: int
    steps: int
    seed: int


def audit(
    models: Sequence[str] | None = None,
    scenarios: Sequence[Scenario | str] = SCENARIOS,
    *,
    instances: int = 4,
    steps: int = 100,
    trials: int = 12,
    seed: int = 0,
    progress: Callable[[str], None] = lambda line: None,
) -> AuditReport:
    """Try every statement on random pairs of runs (`trials` of each kind), then audit the models in the scenarios.

    `models`: pretrained names or paths; by default `MODELS`, and one that is not installed is left out with a note.
    A scenario is a `Scenario` or its text, such as "s=10". `progress` is called with one line before each part.
    """
    for name, value in (("instances", instances), ("steps", steps), ("trials", trials)):
        require_whole(name, value, 1)
    where = [s if isinstance(s, Scenario) else Scenario.parse(s) for s in scenarios]
    notes: list[str] = []
    if models is None:
        there = pretrained()
        models = [name for name in MODELS if name in there]
        absent = [name for name in MODELS if name not in there]
        notes += [f"{name} is not among the pretrained optimizers; it was left out" for name in absent]
    optimizers = {name: load(name) for name in models}  # a wrong name should show before the work, not after it
    progress("statements on random runs")
    tallies = try_all(trials, torch.Generator().manual_seed(seed), quick_grid())
    found, growths = [], []
    settings: dict[str, Setting] = {}
    for name, optimizer in optimizers.items():
        here = _setting(name, instances, seed, settings)
        for scenario in where:
            progress(f"{name}, {scenario.name}")
            found.append(audit_model(name, optimizer, here, scenario, steps, seed))
        progress(f"{name}, growth with s")
        growths.append(growth(name, optimizer, here, SHIFTS, seed=seed))
    return AuditReport(tallies, counterexamples(), found, growths, notes, instances, steps, seed)


def quick_grid() -> Iterator[Kind]:
    """A part of the grid that takes seconds; benchmarks/audit_statements.py tries all of it."""
    return grid(sizes=(1, 3), steps=(3,))


def _setting(name: str, instances: int, seed: int, made: dict[str, Setting]) -> Setting:
    """The problems the model was trained for, as its card says."""
    described = read_card(name).family
    kind = described.get("name")
    if kind not in list(FAMILIES):
        raise InputError(f"the card of {name} has family {kind!r}; the audit knows {', '.join(sorted(FAMILIES))}")
    family = card_family(described)
    if str(family) not in made:
        made[str(family)] = setting(family, instances, seed)
    return made[str(family)]


def write(report: AuditReport, directory: Path) -> list[Path]:
    """audit.md, errata.md, both as one page audit.html, audit.json and the figures; the paths that were written."""
    from sureprox.audit.errata import write_errata
    from sureprox.audit.figures import draw
    from sureprox.audit.page import html
    from sureprox.audit.text import data, markdown

    directory.mkdir(parents=True, exist_ok=True)
    figures = draw(report, directory)
    names = ("audit.md", "errata.md", "audit.html", "audit.json")
    text, errata, page, numbers = (directory / name for name in names)
    write_errata(errata)
    write_atomically(text, markdown(report, [figure.name for figure in figures]).encode())
    write_atomically(page, html(text, errata).encode())
    write_atomically(numbers, data(report).encode())
    return [text, errata, page, numbers, *figures]
