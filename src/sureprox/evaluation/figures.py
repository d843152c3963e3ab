"""Which curves make the figures 1 to 17 of the paper, as data.

FISTA with restart, which the paper does not compare with, joins every figure. The figures with a moved objective have
every curve twice: with the exact proximal operator and with the paper's formula.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from sureprox.evaluation.scenarios import Move, Scenario

SHIFTS = (10.0, 20.0, 50.0, 100.0)  # and their negatives
PAPER_ENDS = {"lasso": 1e-7, "patches": 5e-8}  # the relative gap at which the paper's curves end
PAPER_STALLS = {"lasso": 1.0}  # and where those with a moved objective do
BEST_SETTINGS = (7, 8, 14, 16, 24)  # what the paper's figure 9 compares

RESTART = {"fista-restart": "FISTA with restart"}
FISTA = {"fista": "FISTA"}
HAND_MADE = {"ista": "ISTA"} | FISTA | {"adam": "Adam", "adam-hd": "AdamHD"}


@dataclass(frozen=True)
class Line:
    """One curve of a panel."""

    optimizer: str
    scenario: Scenario
    label: str


@dataclass(frozen=True)
class Panel:
    title: str
    lines: tuple[Line, ...]
    floor: float | None = None  # the gap at which the paper's curves end, where its text says so


@dataclass(frozen=True)
class FigureSpec:
    """Panels are drawn row by row, `columns` in each."""

    name: str
    title: str
    panels: tuple[Panel, ...]
    columns: int = 1

    @property
    def lines(self) -> tuple[Line, ...]:
        """Every curve once."""
        return tuple({(line.optimizer, line.scenario): line for p in self.panels for line in p.lines}.values())

    def joined(self, optimizers: Iterable[str]) -> "FigureSpec":
        """The same figure with those of these optimizers that it lacks, in every scenario of every panel."""
        there = {line.optimizer for line in self.lines}
        new = [name for name in dict.fromkeys(optimizers) if name not in there]

        def more(panel: Panel) -> Panel:
            scenarios = dict.fromkeys(line.scenario for line in panel.lines)
            added = (Line(name, scenario, name) for name in new for scenario in scenarios)
            return replace(panel, lines=(*panel.lines, *added))

        return replace(self, panels=tuple(more(panel) for panel in self.panels)) if new else self


def learned(family: str) -> dict[str, str]:
    """The learned optimizers of a family and their labels."""
    names = {"l2o-dm": "L2O-DM", "rnnprop": "RNNprop"}
    if family == "lasso":
        names["ada-lista"] = "Ada-LISTA"
    names |= {"l2o-pa": "L2O-PA", "go-math-l2o": "GO-Math-L2O"}
    return {f"{kind}/{family}": label for kind, label in names.items()}


def rivals(family: str) -> dict[str, str]:
    """The two that are compared out of distribution."""
    return {name: label for name, label in learned(family).items() if label in ("L2O-PA", "GO-Math-L2O")}


def setting(number: int) -> str:
    """The model trained with one of the 24 settings; the default, 7, is the model itself."""
    return "go-math-l2o/lasso" if number == 7 else f"go-math-l2o/lasso-setting-{number}"


MAPS = {"go-math-l2o/lasso-std": "STD", "go-math-l2o/lasso-lh": "LH", "go-math-l2o/lasso": "LHNoR"}
SHRINKINGS = {
    "go-math-l2o/lasso": "Q",
    "go-math-l2o/lasso-q-sqrt": "Q/√L",
    "go-math-l2o/lasso-q-once": "Q/L",
    "go-math-l2o/lasso-q-twice": "Q/L²",
}


def _one_panel(name: str, title: str, source: str, optimizers: dict[str, str]) -> FigureSpec:
    lines = (Line(optimizer, Scenario(source), label) for optimizer, label in (optimizers | RESTART).items())
    return FigureSpec(name, title, (Panel("", tuple(lines), PAPER_ENDS.get(source)),))


def _shifted(name: str, title: str, source: str, move: Move, optimizers: dict[str, str]) -> FigureSpec:
    """A panel for each size of the shift, with both signs; a second row for the paper's formula."""
    moves = {move: ""} if move is Move.START else {Move.OBJECTIVE: "exact prox, ", Move.PAPER_PROX: "paper's prox, "}
    letter = "s" if move is Move.START else "t"
    panels = tuple(
        Panel(
            f"{words}{letter} = ±{size:g}",
            tuple(
                Line(optimizer, Scenario(source, kind, sign * size), label)
                for optimizer, label in (optimizers | RESTART).items()
                for sign in (1, -1)
            ),
            {Move.START: PAPER_ENDS, Move.PAPER_PROX: PAPER_STALLS}.get(kind, {}).get(source),
        )
        for kind, words in moves.items()
        for size in SHIFTS
    )
    return FigureSpec(name, title, panels, columns=len(SHIFTS))


def _settings(name: str, title: str, numbers: tuple[int, ...]) -> FigureSpec:
    return _one_panel(name, title, "lasso", {setting(number): f"setting {number}" for number in numbers})


_SPECS = (
    _one_panel("fig1", "LASSO, in distribution", "lasso", HAND_MADE | learned("lasso")),
    _one_panel("fig2", "LASSO, image patches", "patches", HAND_MADE | learned("lasso")),
    _shifted("fig3", "LASSO, start moved by s", "lasso", Move.START, rivals("lasso")),
    _shifted("fig4", "LASSO, objective moved by t", "lasso", Move.OBJECTIVE, rivals("lasso") | FISTA),
    _one_panel("fig5", "LASSO, gradient maps", "lasso", MAPS),
    _settings("fig6", "LASSO, training settings 1 to 8 (back-propagation every 20 of 100)", tuple(range(1, 9))),
    _settings("fig7", "LASSO, training settings 9 to 16 (back-propagation every 50 of 100)", tuple(range(9, 17))),
    _settings("fig8", "LASSO, training settings 17 to 24 (back-propagation every 100 of 100)", tuple(range(17, 25))),
    _settings("fig9", "LASSO, the training settings that the paper calls best", BEST_SETTINGS),
    _one_panel("fig10", "LASSO, Q-shrinking, in distribution", "lasso", SHRINKINGS),
    _shifted("fig11", "LASSO, Q-shrinking, start moved by s", "lasso", Move.START, SHRINKINGS),
    _shifted("fig12", "LASSO, Q-shrinking, objective moved by t", "lasso", Move.OBJECTIVE, SHRINKINGS),
    _one_panel("fig13", "Logistic regression, in distribution", "logistic", HAND_MADE | learned("logistic")),
    _one_panel("fig14", "Logistic regression, Ionosphere", "ionosphere", HAND_MADE | learned("logistic")),
    _one_panel("fig15", "Logistic regression, Spambase", "spambase", HAND_MADE | learned("logistic")),
    _shifted("fig16", "Logistic regression, start moved by s", "logistic", Move.START, rivals("logistic")),
    _shifted(
        "fig17", "Logistic regression, objective moved by t", "logistic", Move.OBJECTIVE, rivals("logistic") | FISTA
    ),
)
FIGURES: dict[str, FigureSpec] = {spec.name: spec for spec in _SPECS}
GROUPS: dict[str, tuple[str, ...]] = {
    "all": tuple(FIGURES),
    "ablations": tuple(f"fig{number}" for number in range(5, 13)),
}
