"""The rules behind the sentences of the paper, each verdict of each from records made up for it."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from evaluation_cases import falling, growing, level, made_up_curve, made_up_figure
from sureprox.evaluation.figures import FIGURES, setting
from sureprox.evaluation.records import FigureRecord, RecordError
from sureprox.report.claims import SENTENCES, Judgement, Verdict, count_text, judge, markdown
from sureprox.report.compare import LEVELS, beats, diverged, how, level_text, plateau, reached, similar, speedup
from sureprox.report.spread import merged

GO, PA = "go-math-l2o/lasso", "l2o-pa/lasso"
LGO, LPA = "go-math-l2o/logistic", "l2o-pa/logistic"
Means = dict[str, Sequence[float]]
YES, NO, SEEDS, LATER = Verdict.HOLDS, Verdict.FAILS, Verdict.DEPENDS, Verdict.UNKNOWN


def judged(name: str, *seeds: list[FigureRecord]) -> Judgement:
    (sentence,) = [sentence for sentence in SENTENCES if sentence.name == name]
    (found,) = judge([{figure.figure: figure for figure in figures} for figures in seeds], [sentence])
    return found


def figures_of(name: str, means: Means, absent: Sequence[str] = ()) -> list[FigureRecord]:
    (sentence,) = [sentence for sentence in SENTENCES if sentence.name == name]
    made = [made_up_figure(figure, means, absent) for figure in sentence.figures]
    return [with_variants(means, made[0])] if name == "f5" else made


def with_variants(means: Means, record: FigureRecord) -> FigureRecord:
    """Figure 3 with the further trainings of L2O-PA that have joined it."""
    more = []
    for scenario in dict.fromkeys(curve.scenario for curve in record.curves):
        for name in ("bp-50", "bp-100", "clipped"):
            mean = means.get(f"l2o-pa/lasso-{name} {scenario}", means.get("*", falling(200)))
            more.append(made_up_curve(f"l2o-pa/lasso-{name}", scenario, mean))
    return replace(record, curves=(*record.curves, *more))


def verdict(name: str, means: Means, absent: Sequence[str] = ()) -> Verdict:
    """At 1e-6."""
    return judged(name, figures_of(name, means, absent)).verdicts[LEVELS.index(1e-6)]


def curve(mean: Sequence[float]):
    return made_up_curve("a", "lasso", mean)


def test_measures_of_a_curve() -> None:
    assert reached(curve(falling(50))) == 50
    assert reached(curve(falling(50)), 1e-4) < 50 < reached(curve(falling(50)), 1e-7)
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


def test_who_is_ahead_may_depend_on_the_level() -> None:
    early, late = curve(level(1e-5, at=5)), curve(level(1e-8, at=40))
    assert beats(early, late, 1e-4)
    assert not beats(early, late, 1e-6)


def test_at_the_same_recorded_iteration_the_lower_gap_wins() -> None:
    """After iteration 100 only every tenth is recorded."""
    one, other = (curve([1.0, gap]) for gap in (1e-8, 1e-7))
    assert beats(one, other)
    assert not beats(other, one)
    assert not beats(one, one)


def test_similar_and_faster() -> None:
    assert similar(curve(falling(50)), curve(falling(75)))
    assert not similar(curve(falling(50)), curve(falling(76)))
    assert similar(curve(level(0.1)), curve(level(0.9)))
    assert not similar(curve(level(0.1)), curve(falling(50)))
    assert speedup(curve(falling(50)), curve(falling(100))) == (2.0, False)
    assert speedup(curve(falling(50)), curve(level(0.5))) == (20.0, True)
    assert speedup(curve(falling(50)), curve(growing())) == (float("inf"), False)
    assert speedup(curve(level(0.5)), curve(falling(50))) is None


TEN = {f"{GO} lasso/objective{t}": level(1.2, at=20) for t in ("+10", "-10")}
FORMULA = {f"{key}/paper-prox": mean for key, mean in TEN.items()}
ROOT = f"{GO}-q-sqrt"
WIDER = {f"{ROOT} lasso/start{s:+d}": falling(60 + abs(s)) for s in (10, -10, 20, -20, 50, -50, 100, -100)}

CASES = [
    ("a1", {GO: falling(30), "*": falling(100)}, YES),
    ("a1", {GO: falling(30), "fista": falling(30)}, NO),  # a tie is no win
    ("a1", {GO: falling(30), "fista-restart": falling(10)}, YES),  # the paper does not compare with it
    ("a2", {GO: level(1e-10), "*": level(1e-12)}, YES),  # both are zero in float32
    ("a2", {GO: level(1e-5), "*": level(1e-6)}, NO),
    ("b1", {GO: falling(400)}, YES),
    ("b1", {GO: falling(410)}, NO),
    ("b2", {GO: falling(410), "*": level(0.1)}, YES),
    ("b2", {GO: falling(100), "*": falling(900)}, NO),
    ("b2", {GO: falling(100, 300), "*": level(0.1, length=300)}, LATER),
    ("b3", {GO: falling(410), "*": level(0.1)}, YES),
    ("b3", {GO: falling(410), "ista": falling(300)}, NO),
    ("c1", {GO: falling(60), PA: growing()}, YES),
    ("c1", {GO: falling(60), PA: growing(), f"{PA} lasso/start-100": falling(50)}, NO),
    ("c2", {PA: falling(500)}, YES),
    ("c2", {PA: falling(500), f"{PA} lasso/start+20": growing()}, NO),
    ("d1", {GO: falling(60), PA: growing()}, YES),
    ("d1", {GO: falling(60), PA: growing(), f"{PA} lasso/objective+50": falling(50)}, NO),
    ("d2", {GO: falling(30)}, YES),
    ("d2", {GO: falling(31)}, NO),
    ("d3", {PA: level(0.1)}, YES),
    ("d3", {PA: falling(900)}, NO),
    ("d4", TEN, YES),
    ("d4", FORMULA | {GO: falling(60)}, NO),
    ("d5", FORMULA, YES),
    ("d5", TEN, NO),
    ("e1", {GO: falling(30), "*": falling(40)}, YES),
    ("e1", {GO: falling(30), f"{GO}-lh": falling(20)}, NO),
    ("f1", {"*": falling(40), setting(9): falling(75)}, YES),
    ("f1", {"*": falling(40), setting(24): falling(90)}, NO),
    ("f1", {"*": falling(40), setting(3): growing()}, NO),
    ("f2", {"*": falling(40), setting(7): falling(30), setting(8): falling(31)}, YES),
    ("f2", {"*": falling(40), setting(7): falling(30), setting(6): falling(31)}, NO),
    ("f3", {"*": falling(40), setting(16): falling(30), setting(14): falling(31)}, YES),
    ("f3", {"*": falling(40), setting(16): falling(30), setting(13): falling(31)}, NO),
    ("f4", {"*": falling(40), setting(24): falling(30)}, YES),
    ("f4", {"*": falling(40), setting(23): falling(30)}, NO),
    ("f5", {"*": level(0.1)}, YES),
    ("f5", {"*": growing(), "l2o-pa/lasso-clipped lasso/start+50": falling(300)}, NO),
    ("g1", {GO: falling(30), "*": falling(61)}, YES),
    ("g1", {GO: falling(30), "*": growing(), f"{GO}-q-once": falling(50)}, NO),
    ("g2", {GO: falling(40), ROOT: falling(60)}, YES),
    ("g2", {GO: falling(40), ROOT: falling(61)}, NO),
    ("g3", {GO: falling(40), ROOT: falling(60)}, YES),
    ("g3", {GO: falling(40), ROOT: falling(60), f"{ROOT} lasso/start+20": falling(39)}, NO),
    ("g4", {GO: falling(40)} | WIDER, YES),
    ("g4", {GO: falling(40), ROOT: falling(60)}, NO),
    ("g5", {GO: falling(40), ROOT: falling(60)}, YES),
    ("g5", {GO: falling(40), ROOT: falling(60), f"{ROOT} lasso/objective-50": falling(70)}, NO),
    ("h1", {LGO: falling(50), LPA: falling(60)}, YES),
    ("h1", {LGO: falling(50), LPA: falling(100)}, NO),
    ("h2", {LGO: falling(50), LPA: falling(20)}, YES),
    ("h2", {LGO: falling(50), "fista": falling(20)}, NO),
    ("h3", {LGO: falling(50)}, YES),
    ("h3", {LGO: falling(50), LPA: falling(20)}, NO),
    ("h4", {LGO: falling(50)}, YES),
    ("h4", {LGO: falling(50), "ista": falling(20)}, NO),
    ("h5", {LGO: falling(50), LPA: falling(60)}, YES),
    ("h5", {LGO: falling(50), LPA: falling(60), f"{LPA} logistic/start+100": falling(20)}, NO),
    ("h6", {LGO: falling(50), LPA: falling(100)}, YES),
    ("h6", {LGO: falling(50), LPA: growing(), f"{LPA} logistic/objective-20": falling(99)}, NO),
    ("h7", {LGO: level(0.1), LPA: level(0.2)}, YES),
    ("h7", {LGO: level(0.1), LPA: level(0.2), f"{LPA} logistic/objective-100": level(0.05)}, NO),
    ("h8", {LPA: level(0.1)}, YES),
    ("h8", {LPA: level(0.1), f"{LPA} logistic/objective+50": falling(20)}, NO),
    ("i1", {GO: falling(60), PA: falling(600), LGO: falling(50), LPA: falling(60)}, YES),
    ("i1", {GO: falling(60), PA: falling(599), LGO: falling(50), LPA: falling(60)}, NO),
    ("i1", {GO: falling(60), PA: growing(), LGO: falling(50), LPA: falling(60)}, NO),  # a divergence is no factor
]


@pytest.mark.parametrize(("name", "means", "expected"), CASES, ids=[f"{n}-{v.name}" for n, _, v in CASES])
def test_each_rule(name: str, means: Means, expected: Verdict) -> None:
    assert verdict(name, means) is expected


def test_every_sentence_can_hold_and_fail() -> None:
    for sentence in SENTENCES:
        found = {expected for name, _, expected in CASES if name == sentence.name}
        assert found >= {YES, NO}, sentence.name


@pytest.mark.parametrize("sentence", SENTENCES, ids=lambda sentence: sentence.name)
def test_without_records_nothing_is_judged(sentence) -> None:
    found = judged(sentence.name, [])
    assert set(found.verdicts) == {LATER}
    assert found.missing


@pytest.mark.parametrize(("name", "absent"), [("a1", PA), ("h2", LGO), ("f2", setting(3))])
def test_a_curve_that_is_missing_is_named(name: str, absent: str) -> None:
    found = judged(name, figures_of(name, {}, (absent,)))
    assert set(found.verdicts) == {LATER}
    assert absent in found.missing


def test_a_verdict_may_depend_on_the_level() -> None:
    found = judged("a1", figures_of("a1", {GO: level(1e-8, at=40), "*": level(1e-5, at=5)}))
    assert found.verdicts == (NO, YES, YES)
    assert "1e-4: GO-Math-L2O 40" in found.measured


def test_a_verdict_may_depend_on_the_seed() -> None:
    good = figures_of("e1", {GO: falling(30), "*": falling(40)})
    bad = figures_of("e1", {GO: falling(50), "*": falling(40)})
    assert set(judged("e1", good, good).verdicts) == {YES}
    assert set(judged("e1", bad, bad).verdicts) == {NO}
    mixed = judged("e1", good, bad)
    assert set(mixed.verdicts) == {SEEDS}
    assert "LHNoR 30 | " in mixed.measured  # the numbers of every seed
    assert "LHNoR 50" in mixed.measured


def test_the_table_has_every_sentence_its_numbers_and_its_rule() -> None:
    records = {name: made_up_figure(name, {GO: falling(60), PA: growing(), "*": falling(200)}) for name in FIGURES}
    text = markdown(judge([records]), "full", pictures="figures/")
    for sentence in SENTENCES:
        (row,) = [line for line in text.splitlines() if line.startswith(f"| ({sentence.name})")]
        assert row.replace("\\|", "").count("|") == 5 + len(LEVELS)
        assert f"- ({sentence.name}) " in text
        for name in sentence.figures:
            assert f"(figures/{name}.png)" in row
    assert all(level_text(level) in text for level in LEVELS)
    assert "one training seed" in text
    assert count_text(judge([records])) in text
    assert "5 seeds" in markdown(judge([records] * 5), "full", 5)


def test_sentences_are_those_of_claims_a_to_i_and_have_criteria() -> None:
    assert "".join(dict.fromkeys(sentence.name[0] for sentence in SENTENCES)) == "abcdefghi"
    assert len({sentence.name for sentence in SENTENCES}) == len(SENTENCES)
    assert all(len(sentence.criterion) > 30 for sentence in SENTENCES)
    assert {name for sentence in SENTENCES for name in sentence.figures} <= set(FIGURES)


def test_seeds_are_merged_into_median_and_range() -> None:
    seeds = [made_up_figure("fig5", {"*": level(gap)}) for gap in (3.0, 1.0, 2.0)]
    found = merged(seeds)
    assert {(c.mean[-1], c.q10[-1], c.q90[-1]) for c in found.curves} == {(2.0, 1.0, 3.0)}
    assert found.mode == "full, median and range of 3 training seeds"
    part = replace(seeds[1], curves=seeds[1].curves[1:])
    assert len(merged([seeds[0], part]).curves) == len(seeds[0].curves) - 1
    with pytest.raises(RecordError, match="no training seed"):
        merged([])
    with pytest.raises(RecordError, match="different iterations"):
        merged([seeds[0], made_up_figure("fig5", {"*": level(1.0, length=50)})])
