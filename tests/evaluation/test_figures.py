"""The figures as data: what the paper shows in each."""

from collections import Counter

from sureprox.evaluation.contestants import CLASSICAL
from sureprox.evaluation.figures import FIGURES, GROUPS, rivals, setting
from sureprox.evaluation.scenarios import Move, Scenario


def curves(name: str) -> set[tuple[str, str]]:
    return {(line.optimizer, line.scenario.name) for line in FIGURES[name].lines}


def test_there_are_seventeen_figures() -> None:
    assert list(FIGURES) == [f"fig{n}" for n in range(1, 18)]
    assert GROUPS["all"] == tuple(FIGURES)
    assert GROUPS["ablations"] == tuple(f"fig{n}" for n in range(5, 13))


def test_restarted_fista_joins_every_panel() -> None:
    for spec in FIGURES.values():
        for panel in spec.panels:
            assert "fista-restart" in {line.optimizer for line in panel.lines}


def test_in_distribution_shows_all_methods_of_the_paper() -> None:
    assert len({optimizer for optimizer, _ in curves("fig1")}) == 10
    assert len({optimizer for optimizer, _ in curves("fig13")}) == 9  # Ada-LISTA is for LASSO only
    for name, source in (("fig1", "lasso"), ("fig2", "patches"), ("fig14", "ionosphere"), ("fig15", "spambase")):
        assert {scenario for _, scenario in curves(name)} == {source}


def test_shifts_come_with_both_signs_and_the_moved_objective_with_both_operators() -> None:
    for name, family, moves in (
        ("fig3", "lasso", [Move.START]),
        ("fig4", "lasso", [Move.OBJECTIVE, Move.PAPER_PROX]),
        ("fig16", "logistic", [Move.START]),
        ("fig17", "logistic", [Move.OBJECTIVE, Move.PAPER_PROX]),
    ):
        wanted = {
            (optimizer, Scenario(family, move, sign * size).name)
            for optimizer in rivals(family)
            for move in moves
            for size in (10.0, 20.0, 50.0, 100.0)
            for sign in (1, -1)
        }
        assert wanted <= curves(name)


def test_the_settings_are_shown_once_each() -> None:
    shown = Counter(line.label for n in (6, 7, 8) for line in FIGURES[f"fig{n}"].lines)
    assert dict.fromkeys((f"setting {n}" for n in range(1, 25)), 1).items() <= shown.items()
    assert {optimizer for optimizer, _ in curves("fig9")} == {setting(n) for n in (7, 8, 14, 16, 24)} | {
        "fista-restart"
    }
    assert setting(7) == "go-math-l2o/lasso"


def test_learned_optimizers_are_those_of_the_family() -> None:
    for spec in FIGURES.values():
        for line in spec.lines:
            if line.optimizer not in CLASSICAL:
                assert line.optimizer.partition("/")[2].split("-")[0] == line.scenario.family
