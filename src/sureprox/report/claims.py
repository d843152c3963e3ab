"""The claims of the paper, sentence by sentence, each judged from records by a rule; nothing is typed by hand."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from sureprox.evaluation.records import FigureRecord
from sureprox.report.compare import LEVELS, AbsentError, Records, level_text
from sureprox.report.rules import choices, comparison, logistic
from sureprox.report.rules.common import Answer

Rule = Callable[[Records, float], Answer]
Figures = Mapping[str, FigureRecord]


class Verdict(StrEnum):
    HOLDS = "holds"
    DEPENDS = "depends on the seed"
    FAILS = "does not"
    UNKNOWN = "not measured yet"


@dataclass(frozen=True)
class Sentence:
    """A sentence of the paper, the figures it is about and the rule that judges it. (a1) is the first of claim (a)."""

    name: str
    says: str
    figures: tuple[str, ...]
    rule: Rule

    @property
    def criterion(self) -> str:
        """The rule in words: its docstring."""
        return " ".join((self.rule.__doc__ or "").split())


@dataclass(frozen=True)
class Judgement:
    """What came of a sentence at each of `LEVELS`, over the training seeds."""

    sentence: Sentence
    verdicts: tuple[Verdict, ...]
    measured: str  # the numbers at each level, those of the first seed; of all of them where the verdict depends on it
    missing: str = ""  # what it would take to judge


SENTENCES = (
    Sentence("a1", "GO-Math-L2O converges faster than all others", ("fig1",), comparison.fastest_in_distribution),
    Sentence("a2", "with better optimality", ("fig1",), comparison.lowest_in_distribution),
    Sentence("b1", "On image patches it converges at 400 iterations", ("fig2",), comparison.patches_converge),
    Sentence("b2", "the others do not within 1,000", ("fig2",), comparison.patches_others),
    Sentence("b3", "it outperforms all other baselines there", ("fig2",), comparison.patches_best),
    Sentence("c1", "It beats L2O-PA however the start is moved", ("fig3",), comparison.start_moved),
    Sentence("c2", "both reach 1e-7 there", ("fig3",), comparison.start_moved_both),
    Sentence("d1", "It beats L2O-PA however the objective is moved", ("fig4",), comparison.objective_moved),
    Sentence("d2", "at t = ±10 it converges at around 20 steps", ("fig4",), comparison.twenty_steps),
    Sentence("d3", "L2O-PA fails to converge there", ("fig4",), comparison.fails_at_ten),
    Sentence("d4", "the optimal values deteriorate to 1e0", ("fig4",), comparison.deteriorates),
    Sentence(
        "d5", "the same with the proximal operator as printed", ("fig4",), comparison.deteriorates_with_the_formula
    ),
    Sentence("e1", "LHNoR outperforms the other two gradient maps", ("fig5",), choices.gradient_maps),
    Sentence("f1", "Training settings matter little", ("fig6", "fig7", "fig8"), choices.settings_matter_little),
    Sentence("f2", "the best of 20/100 are settings 7 and 8", ("fig6",), choices.best_of_20),
    Sentence("f3", "the best of 50/100 are settings 14 and 16", ("fig7",), choices.best_of_50),
    Sentence("f4", "the best of 100/100 is setting 24", ("fig8",), choices.best_of_100),
    Sentence("f5", "L2O-PA fails at every shift with 50/100, 100/100, or clipped", ("fig3",), choices.variants_fail),
    Sentence("g1", "Q/L and Q/L² are poor in distribution", ("fig10",), choices.shrinking_poor),
    Sentence("g2", "Q/√L is similar to Q", ("fig10",), choices.shrinking_similar),
    Sentence("g3", "Q outperforms Q/√L however the start is moved", ("fig11",), choices.shrinking_start),
    Sentence("g4", "and the more so, the larger the shift", ("fig11",), choices.shrinking_margin),
    Sentence("g5", "both are similar when the objective is moved", ("fig12",), choices.shrinking_objective),
    Sentence("h1", "Logistic: similar to L2O-PA in distribution", ("fig13",), logistic.logistic_similar),
    Sentence("h2", "and better than all others", ("fig13",), logistic.logistic_others),
    Sentence("h3", "best on Ionosphere", ("fig14",), logistic.ionosphere),
    Sentence("h4", "best on Spambase", ("fig15",), logistic.spambase),
    Sentence("h5", "similar to L2O-PA when the start is moved", ("fig16",), logistic.logistic_start),
    Sentence("h6", "significantly faster at t = ±10, ±20", ("fig17",), logistic.logistic_near),
    Sentence("h7", "better optimums at t = ±50, ±100", ("fig17",), logistic.logistic_far),
    Sentence("h8", "L2O-PA fails to converge when the objective is moved", ("fig17",), logistic.logistic_fails),
    Sentence(
        "i1",
        "Up to 10 times faster than L2O-PA out of distribution",
        ("fig2", "fig3", "fig4", "fig14", "fig15", "fig16", "fig17"),
        comparison.ten_times_faster,
    ),
)


def judge(seeds: Sequence[Figures], sentences: Sequence[Sentence] = SENTENCES) -> list[Judgement]:
    """Every sentence, judged from the figures on record of each training seed."""
    return [_judged(sentence, [Records(figures) for figures in seeds]) for sentence in sentences]


def _judged(sentence: Sentence, seeds: Sequence[Records]) -> Judgement:
    try:
        answers = [[sentence.rule(records, level) for records in seeds] for level in LEVELS]
    except AbsentError as absent:
        return Judgement(sentence, (Verdict.UNKNOWN,) * len(LEVELS), "", str(absent))
    parts: dict[str, list[str]] = {}
    for level, found in zip(LEVELS, answers, strict=True):
        shown = found if _verdict(found) is Verdict.DEPENDS else found[:1]
        parts.setdefault(" | ".join(answer.measured for answer in shown), []).append(level_text(level))
    one = len(parts) == 1
    measured = "; ".join(text if one else f"{', '.join(levels)}: {text}" for text, levels in parts.items())
    return Judgement(sentence, tuple(_verdict(found) for found in answers), measured)


def _verdict(answers: Sequence[Answer]) -> Verdict:
    """Over the seeds."""
    held = [answer.holds for answer in answers]
    return Verdict.HOLDS if all(held) else Verdict.DEPENDS if any(held) else Verdict.FAILS


def count_text(judgements: Sequence[Judgement]) -> str:
    """How many hold at every level, and so on: "12 of 32 hold at every level, ..."."""
    kinds = [set(entry.verdicts) for entry in judgements]
    alike = {verdict: sum(kind == {verdict} for kind in kinds) for verdict in Verdict}
    holds, fails, seed, unknown = (alike[v] for v in (Verdict.HOLDS, Verdict.FAILS, Verdict.DEPENDS, Verdict.UNKNOWN))
    return (
        f"{holds} of {len(kinds)} sentences hold at every level, {fails} at none, {seed} depend on the seed, "
        f"{len(kinds) - sum(alike.values())} on the level, {unknown} cannot be judged yet"
    )


def markdown(judgements: Sequence[Judgement], mode: str, seeds: int = 1, pictures: str = "") -> str:
    """The table of sentences; figures link to `pictures`/NAME.png."""
    trained = "one training seed, so that no verdict can be 'depends on the seed'" if seeds == 1 else f"{seeds} seeds"
    levels = [level_text(level) for level in LEVELS]
    lines = [
        f"Judged from the {mode} run, {trained}. A run counts as converged at a mean relative gap of "
        f"{', of '.join(levels[:-1])}, and of {levels[-1]}, where the paper's curves end; numbers of iterations are to "
        f"that level. {count_text(judgements)}.",
        "",
        f"| | the paper says | {' | '.join(levels)} | measured | figures |",
        "| --- | --- | " + "--- | " * len(levels) + "--- | --- |",
    ]
    for entry in judgements:
        sentence = entry.sentence
        links = ", ".join(f"[{name.removeprefix('fig')}]({pictures}{name}.png)" for name in sentence.figures)
        verdicts = [f"**{verdict.value}**" for verdict in entry.verdicts]
        measured = f"missing: {entry.missing}" if entry.missing else entry.measured
        cells = (f"({sentence.name})", sentence.says, *verdicts, measured, links)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    lines += ["", "A sentence holds if:", ""]
    lines += [f"- ({entry.sentence.name}) {entry.sentence.criterion}" for entry in judgements]
    return "\n".join(lines) + "\n"
