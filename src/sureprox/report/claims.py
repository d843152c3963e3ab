"""The claims of the paper, each judged from records by a rule that is written down; nothing is typed by hand."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sureprox.evaluation.records import FigureRecord
from sureprox.report import rules
from sureprox.report.compare import TARGET, AbsentError, Records
from sureprox.report.verdicts import Finding, Verdict

Rule = Callable[[Records], Finding]


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, the figures it is about and the rule that judges it."""

    letter: str
    says: str
    figures: tuple[str, ...]
    rule: Rule

    @property
    def criterion(self) -> str:
        """The rule in words: its docstring."""
        return " ".join((self.rule.__doc__ or "").split())


@dataclass(frozen=True)
class Judgement:
    claim: Claim
    finding: Finding

    @property
    def verdict(self) -> str:
        missing = f": missing {self.finding.missing}" if self.finding.missing else ""
        return f"{self.finding.verdict.value}{missing}"


CLAIMS = (
    Claim("a", "GO-Math-L2O is the best of all, in distribution", ("fig1",), rules.best_in_distribution),
    Claim(
        "b",
        "On image patches GO-Math-L2O converges at 400 iterations, the others not at 1,000",
        ("fig2",),
        rules.patches,
    ),
    Claim("c", "GO-Math-L2O beats L2O-PA however the start is moved", ("fig3",), rules.start_moved),
    Claim(
        "d",
        "GO-Math-L2O beats L2O-PA however the objective is moved; at t = ±10 it converges at about 20 steps, L2O-PA "
        "does not converge",
        ("fig4",),
        rules.objective_moved,
    ),
    Claim("e", "LHNoR is the best of the three gradient maps", ("fig5",), rules.gradient_maps),
    Claim("f", "Training settings matter little", ("fig6", "fig7", "fig8", "fig9"), rules.training_settings),
    Claim("g", "Q and Q/√L are fine in distribution, Q/L and Q/L² poor", ("fig10",), rules.shrinking),
    Claim(
        "h",
        "Logistic: like L2O-PA in distribution, best on the real sets, ahead when the objective is moved",
        ("fig13", "fig14", "fig15", "fig17"),
        rules.logistic,
    ),
    Claim(
        "i",
        "Up to 10 times faster than L2O-PA out of distribution",
        ("fig2", "fig3", "fig4", "fig14", "fig15", "fig16", "fig17"),
        rules.ten_times_faster,
    ),
)


def judge(figures: Mapping[str, FigureRecord], claims: Sequence[Claim] = CLAIMS) -> list[Judgement]:
    """Every claim, judged from what is on record."""
    records = Records(figures)
    judgements = []
    for claim in claims:
        try:
            finding = claim.rule(records)
        except AbsentError as absent:
            finding = Finding(Verdict.UNKNOWN, "", str(absent))
        judgements.append(Judgement(claim, finding))
    return judgements


def markdown(judgements: Sequence[Judgement], mode: str, pictures: str = "") -> str:
    """The table of claims; figures link to `pictures`/NAME.png."""
    lines = [
        f"Judged from the {mode} run. A run counts as converged at a mean relative gap of {TARGET:.0e}; numbers of "
        "iterations are to that level.",
        "",
        "| | the paper says | measured | verdict | figures |",
        "| --- | --- | --- | --- | --- |",
    ]
    for entry in judgements:
        links = ", ".join(f"[{name.removeprefix('fig')}]({pictures}{name}.png)" for name in entry.claim.figures)
        cells = (f"({entry.claim.letter})", entry.claim.says, entry.finding.measured, f"**{entry.verdict}**", links)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    lines += ["", "How each verdict is reached:", ""]
    lines += [f"- ({entry.claim.letter}) {entry.claim.criterion}" for entry in judgements]
    return "\n".join(lines) + "\n"
