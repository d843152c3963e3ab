"""The rules behind the claims, each verdict of each from records made up for it."""

from collections.abc import Sequence

import pytest

from evaluation_cases import falling, growing, level, made_up_curve, made_up_figure
from sureprox.evaluation.figures import FIGURES, setting
from sureprox.evaluation.records import FigureRecord
from sureprox.report.claims import CLAIMS, judge, markdown
from sureprox.report.compare import beats, diverged, how, plateau, reached, speedup

GO, PA = "go-math-l2o/lasso", "l2o-pa/lasso"
LOGISTIC = {"go-math-l2o/logistic": falling(50), "l2o-pa/logistic": falling(60)}
Means = dict[str, Sequence[float]]


def verdict(letter: str, *figures: FigureRecord) -> str:
    (claim,) = [claim for claim in CLAIMS if claim.letter == letter]
    (found,) = judge({figure.figure: figure for figure in figures}, [claim])
    return found.verdict


def curve(mean: Sequence[float]):
    return made_up_curve("a", "lasso", mean)


def test_measures_of_a_curve() -> None:
    assert reached(curve(falling(50))) == 50
    assert reached(curve(level(0.5))) is None
    assert diverged(curve(growing()))
    assert not diverged(curve(level(500.0)))
    assert how(curve(falling(50))) == "50"
    assert how(curve(growing())) == "diverges"
    assert how(curve(level(0.5))) == "not in 1000 (ends at 5.0e-01)"
    assert plateau(curve(level(1.2, at=20))) == 20
    assert plateau(curve(growing())) == 1000


def test_who_beats_whom() -> None:
    order = [falling(50), falling(60), level(0.1), level(0.5), growing()]
    for i, better in enumerate(order):
        for j, worse in enumerate(order):
            assert beats(curve(better), curve(worse)) == (i < j)


def test_at_the_same_recorded_iteration_the_lower_gap_wins() -> None:
    """After iteration 100 only every tenth is recorded."""
    one, other = (curve([1.0, gap]) for gap in (1e-8, 1e-7))
    assert beats(one, other)
    assert not beats(other, one)
    assert not beats(one, one)


def test_speedups() -> None:
    assert speedup(curve(falling(50)), curve(falling(100))) == (2.0, False)
    assert speedup(curve(falling(50)), curve(level(0.5))) == (20.0, True)
    assert speedup(curve(falling(50)), curve(growing())) == (float("inf"), False)
    assert speedup(curve(level(0.5)), curve(falling(50))) is None


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.letter)
def test_without_records_nothing_is_judged(claim) -> None:
    assert verdict(claim.letter).startswith("cannot be judged: missing ")


@pytest.mark.parametrize(
    ("means", "absent", "expected"),
    [
        ({GO: falling(30), "*": falling(100)}, (), "reproduced"),
        ({GO: falling(30), "fista": falling(30)}, (), "not reproduced"),  # a tie is no win
        ({GO: falling(80), PA: falling(40)}, (), "not reproduced"),
        ({GO: falling(30), "fista-restart": falling(10)}, (), "reproduced"),  # the paper does not compare with it
        ({GO: falling(30)}, (PA,), "cannot be judged: missing l2o-pa/lasso on lasso"),
        ({GO: falling(30), "fista": falling(20)}, (PA,), "not reproduced"),
        ({}, (GO,), "cannot be judged: missing go-math-l2o/lasso on lasso"),
    ],
)
def test_a(means: Means, absent: tuple[str, ...], expected: str) -> None:
    assert verdict("a", made_up_figure("fig1", means, absent)) == expected


@pytest.mark.parametrize(
    ("means", "expected"),
    [
        ({GO: falling(390), "*": level(0.1)}, "reproduced"),
        ({GO: falling(390), "*": falling(900)}, "not reproduced"),
        ({GO: falling(410), "*": level(0.1)}, "not reproduced"),
        ({GO: level(0.1), "*": level(0.1)}, "not reproduced"),
        (
            {GO: falling(100, 300), "*": level(0.1, length=300)},
            "cannot be judged: missing iterations (300 were run, the claim is about 1,000)",
        ),
    ],
)
def test_b(means: Means, expected: str) -> None:
    assert verdict("b", made_up_figure("fig2", means)) == expected


@pytest.mark.parametrize(
    ("means", "expected"),
    [
        ({GO: falling(60), PA: growing()}, "reproduced"),
        ({GO: falling(60), PA: growing(), f"{PA} lasso/start-100": falling(50)}, "not reproduced"),
    ],
)
def test_c(means: Means, expected: str) -> None:
    assert verdict("c", made_up_figure("fig3", means)) == expected


STALL = {
    f"{name} lasso/objective{t}/paper-prox": level(1.2, at=20)
    for name in (GO, PA, "fista")
    for t in ("+10", "-10", "+20", "-20", "+50", "-50", "+100", "-100")
}


@pytest.mark.parametrize(
    ("means", "expected"),
    [
        ({GO: falling(60), PA: growing(), "fista": falling(200)} | STALL, "artefact of the shifted prox"),
        ({GO: level(1.2, at=20), PA: level(5.0), "fista": falling(200)}, "reproduced"),
        ({GO: falling(60), PA: growing(), "fista": falling(200)}, "not reproduced"),  # no plateau with either operator
        ({GO: level(1.2, at=100), PA: level(5.0), "fista": falling(200)} | STALL, "not reproduced"),
    ],
)
def test_d(means: Means, expected: str) -> None:
    assert verdict("d", made_up_figure("fig4", means)) == expected


@pytest.mark.parametrize(
    ("means", "expected"),
    [
        ({GO: falling(30), "*": falling(40)}, "reproduced"),
        ({GO: falling(30), f"{GO}-lh": falling(20)}, "not reproduced"),
    ],
)
def test_e(means: Means, expected: str) -> None:
    assert verdict("e", made_up_figure("fig5", means)) == expected


@pytest.mark.parametrize(
    ("means", "absent", "expected"),
    [
        ({"*": falling(40), setting(9): falling(75)}, (), "reproduced"),
        ({"*": falling(40), setting(24): falling(90)}, (), "not reproduced"),
        ({"*": falling(40), setting(3): growing()}, (), "not reproduced"),
        ({"*": growing()}, (), "not reproduced"),
        ({"*": falling(40)}, (setting(2), setting(17)), "cannot be judged: missing setting 2, setting 17"),
        ({"*": falling(40), setting(24): falling(90)}, (setting(2),), "not reproduced"),
    ],
)
def test_f(means: Means, absent: tuple[str, ...], expected: str) -> None:
    assert verdict("f", *(made_up_figure(f"fig{n}", means, absent) for n in (6, 7, 8))) == expected


@pytest.mark.parametrize(
    ("means", "expected"),
    [
        ({GO: falling(30), f"{GO}-q-sqrt": falling(40), "*": falling(100)}, "reproduced"),
        ({GO: falling(30), f"{GO}-q-sqrt": falling(40), "*": growing()}, "reproduced"),
        ({GO: falling(30), f"{GO}-q-sqrt": falling(70), "*": growing()}, "not reproduced"),
        ({GO: falling(30), f"{GO}-q-sqrt": falling(40), "*": growing(), f"{GO}-q-once": falling(50)}, "not reproduced"),
        ({"*": growing()}, "not reproduced"),
    ],
)
def test_g(means: Means, expected: str) -> None:
    assert verdict("g", made_up_figure("fig10", means)) == expected


@pytest.mark.parametrize(
    ("means", "absent", "expected"),
    [
        (LOGISTIC, (), "reproduced"),
        (LOGISTIC | {"l2o-pa/logistic logistic": falling(100)}, (), "not reproduced"),
        (LOGISTIC | {"fista spambase": falling(20)}, (), "not reproduced"),
        (LOGISTIC | {"l2o-pa/logistic logistic/objective+10": falling(20)}, (), "artefact of the shifted prox"),
        (
            LOGISTIC | {f"l2o-pa/logistic logistic/objective+10{p}": falling(9) for p in ("", "/paper-prox")},
            (),
            "not reproduced",
        ),
        (LOGISTIC, ("ista ionosphere",), "cannot be judged: missing ista on ionosphere"),
    ],
)
def test_h(means: Means, absent: tuple[str, ...], expected: str) -> None:
    figures = [made_up_figure(f"fig{n}", means, absent) for n in (13, 14, 15, 17)]
    assert verdict("h", *figures) == expected


@pytest.mark.parametrize(
    ("means", "expected"),
    [
        ({GO: falling(60), PA: growing(), **LOGISTIC}, "reproduced"),
        ({GO: falling(60), PA: falling(599), **LOGISTIC}, "not reproduced"),
        ({GO: falling(60), PA: falling(600), **LOGISTIC}, "reproduced"),
        ({GO: falling(60), PA: level(0.5), **LOGISTIC}, "reproduced"),  # at least 1000 / 60
        ({GO: level(0.5), PA: growing(), "go-math-l2o/logistic": growing()}, "not reproduced"),
        (
            {GO: falling(60, 400), PA: level(0.5, length=400), "*": falling(60, 400)},
            "cannot be judged: missing iterations (400 were run)",
        ),
    ],
)
def test_i(means: Means, expected: str) -> None:
    assert verdict("i", *(made_up_figure(f"fig{n}", means) for n in (2, 3, 4, 14, 15, 16, 17))) == expected


def test_i_with_missing_figures_can_only_be_confirmed() -> None:
    assert verdict("i", made_up_figure("fig3", {GO: falling(60), PA: growing()})) == "reproduced"
    slow = made_up_figure("fig3", {GO: falling(60), PA: falling(70)})
    assert verdict("i", slow).startswith("cannot be judged: missing fig2, ")


def test_the_table_has_every_claim_its_numbers_and_its_rule() -> None:
    means = {GO: falling(60), PA: growing(), "*": falling(200), **LOGISTIC}
    text = markdown(judge({name: made_up_figure(name, means) for name in FIGURES}), "full", "figures/")
    for claim in CLAIMS:
        (row,) = [line for line in text.splitlines() if line.startswith(f"| ({claim.letter})")]
        assert row.count("|") == 6
        assert f"- ({claim.letter}) " in text
        for name in claim.figures:
            assert f"(figures/{name}.png)" in row
    assert "**cannot be judged" not in text
    assert "L2O-PA diverges" in text
    assert "after 60 iterations" in text


def test_claims_are_a_to_i_and_have_criteria() -> None:
    assert "".join(claim.letter for claim in CLAIMS) == "abcdefghi"
    assert all(len(claim.criterion) > 40 for claim in CLAIMS)
    assert {name for claim in CLAIMS for name in claim.figures} <= set(FIGURES)
