"""docs/errata.md, written by the audit: every statement that is false as printed, with a counterexample run live."""

import re
from collections.abc import Iterator
from pathlib import Path

from sureprox.audit import counterexamples as small
from sureprox.audit import counterexamples_horizon as large
from sureprox.audit import slips
from sureprox.audit.counterexamples import Counterexample
from sureprox.audit.statements import STATEMENTS, Statement, Verdict
from sureprox.audit.text import table
from sureprox.base.files import write_atomically


def number(value: float) -> str:
    """Five digits: enough to check by hand, few enough not to depend on the machine."""
    return f"{0.0 if abs(value) < 1e-12 else value:.5g}"


def formula(statement: Statement) -> str:
    """The statement and its correction, from the docstring of its check."""
    text = "" if statement.check is None else statement.check.__doc__ or ""
    return "\n".join(line.removeprefix("    ").rstrip() for line in text.strip().splitlines())


def entry(statement: Statement, example: Counterexample) -> Iterator[str]:
    yield f"## {statement.name} (line {statement.line})"
    yield f"Claim: {statement.claim}. Wrong: {statement.remark}."
    if statement.check is not None:
        yield f"```text\n{formula(statement)}\n```"
    corrected = ""
    if example.corrected_lhs is not None and example.corrected is not None:
        corrected = f"; corrected, left side **{number(example.corrected_lhs)}**, right **{number(example.corrected)}**"
    elif example.corrected is not None:
        corrected = f", right side corrected **{number(example.corrected)}**"
    yield f"Counterexample: {example.instance}."
    yield f"Left side **{number(example.lhs)}**, right side as printed **{number(example.printed)}**{corrected}."
    if example.notes:
        yield "\n".join(f"- {name}: {number(value)}" for name, value in example.notes.items())


def hidden_hypotheses() -> Iterator[str]:
    """True statements that are easily misread, with numbers."""
    example = small.smoothness_of_f_prime()
    yield (
        f"- **Theorem 1** needs f' to be smooth with the same L. {example.instance}: left side {number(example.lhs)}, "
        f"right side {number(example.printed)}."
    )
    helps = ", ".join(f"{name} gives F' = {number(value)}" for name, value in small.ood_can_help().items())
    yield f"- **Theorem 1** does not say that out-of-distribution inputs slow a method. f' = x²/20, x' = 1: {helps}."
    vacuous = ", ".join(f"{name} {number(value)}" for name, value in small.vacuous_corollary2().items())
    yield f"- **Corollary 2** with its factors n says nothing at n = 500: {vacuous}."
    side = small.side_claim_of_lemma3()
    yield (
        "- **Lemma 3**: N1 = 0 with N2 in [0, 2|G|/L], a side claim of its proof, is false for G < 0. f = x²/2, "
        f"x = -1, N2 = 1: F goes from {number(side['F before'])} to {number(side['F after'])}."
    )
    gain = ", ".join(f"{name}: {number(value)}" for name, value in small.prox_gain().items())
    yield (
        "- **Theorem 4**: -|G'|²/2L is not the gain of proximal gradient descent, since G' depends on N1. x = 1, "
        f"grad f = 0.5, lam = 0.4, L = 1 ({gain})."
    )
    display = large.lemma5_display()
    yield (
        "- **Lemma 5**: a display of x_k closes the prox before the history P. Read so, the bound fails: f = "
        "0.364 (x + 1.042)², lam = 1.888, x = 0.349, N3 P = 4.341, N1 = 0.108, L = 1 give F(x_k) = "
        f"{number(display['F(x_k)'])} and right side minus left side {number(display['slack'])}."
    )
    yield (
        "- **Theorem 3**: the subgradient recovered from a prox step is that at the new point. x_{k-1} = 0.2, "
        f"r = 0.3|x|, a step across 0: {number(large.recovered_subgradient())}, not +0.3. If N1 reads the implicit "
        f"subgradient, the step may have several solutions: {', '.join(map(number, large.implicit_solutions()))}."
    )


def errata() -> str:
    """The page."""
    examples = large.counterexamples()
    wrong = [statement for statement in STATEMENTS if statement.verdict is Verdict.FALSE]
    lines = [
        "# Errata",
        "What is wrong in *Towards Robust Learning to Optimize with Theoretical Guarantees* (CVPR 2024), as its "
        "statements are printed, and what is true instead. This page is written by "
        "`sureprox.audit.errata.write_errata`, which computes every number on it; line numbers are those of the "
        "paper's LaTeX source. Primes mark the out-of-distribution run, g = grad f, G = g + gam with gam a subgradient "
        "of r, D_k = |x'_k - x'*|, s' the difference of the features, J_j s' = N_j(z') - N_j(z), o the entrywise "
        "product.",
        "\n".join(
            table(
                ("statement", "claim", "as printed", "remark"),
                [(s.name, s.claim, s.verdict.value, s.remark) for s in STATEMENTS],
            )
        ),
    ]
    for statement in wrong:
        lines += entry(statement, examples[statement.name])
        if statement.name == "OOD prox":
            lines += fixed_points()
    lines += slips.entries()
    lines += ["## True, with a hypothesis or a reading that matters", "\n".join(hidden_hypotheses())]
    return "\n\n".join(map(as_markdown, lines)) + "\n"


def as_markdown(text: str) -> str:
    """x'_k and x'* as they stand: after a prime, Markdown would read _ and * as the ends of an emphasis."""
    return text if text.startswith("```") else re.sub(r"'([_*])", r"'\\\1", text)


def fixed_points() -> Iterator[str]:
    """Where methods end that use the printed prox."""
    rows = []
    for t in (10.0, -10.0):
        found = large.constrained_fixed_point(t)
        names = ("exact prox", "printed prox", "constrained")
        rows.append((f"{t:g}", *(number(found[name]) for name in names)))
    yield (
        "With |t| larger than the iterates, a method with the printed prox solves another problem: LASSO constrained "
        "to sgn(t) (x + t) <= 0. F where 1,000 steps of ISTA end on a random LASSO with 10 rows and 20 columns:"
    )
    yield "\n".join(table(("t", "exact prox", "printed prox", "optimum under the constraint"), rows))


def write_errata(path: Path) -> None:
    write_atomically(path, errata().encode())


def main() -> None:
    """Write docs/errata.md of the checkout this is run in."""
    write_errata(Path("docs") / "errata.md")
