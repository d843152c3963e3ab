"""A page about one solve: how it went, every problem with its certificate and support, and coefficients by name."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sureprox.report.page.assemble import document
from sureprox.report.page.markup import Cell, Html, Row, element, join, number, table
from sureprox.report.page.section import Section

MOST = 1000  # problems that are listed
BESIDE = 12  # problems in the table of coefficients


@dataclass(frozen=True)
class Told:
    """What the page shows.

    summary: names and what is said of them. problems: for each a label, status, iterations, objective, gap,
    relative_gap (None where unknown), nonzeros, proved (how many zeros are proved), proved_nonzero, certified (whether
    the support is) and track. coefficients: by name, a number for each problem.
    """

    source: str
    summary: Mapping[str, str]
    problems: Sequence[Mapping[str, Any]]
    n: int
    coefficients: Mapping[str, Sequence[float]] = field(default_factory=dict)


def solve_page(told: Told) -> str:
    """The same solve gives the same page, but for the seconds."""
    sections = [_summary(told), _problems(told)]
    if told.coefficients:
        sections.append(_coefficients(told))
    return document(sections, f"solve of {told.source}")


def _summary(told: Told) -> Section:
    counts = Counter(problem["status"] for problem in told.problems)
    tracks = Counter(problem["track"] for problem in told.problems)
    rows = [[name, text] for name, text in told.summary.items()]
    found = [[track, number(count, ",d")] for track, count in tracks.most_common()]
    body = join(
        [
            element("p", *(join([_verdict(status, f"{count:,} {status}"), " "]) for status, count in counts.items())),
            table(["", ""], rows, "how the problems were solved"),
            table(["found by", "problems"], found, "which method found each answer"),
        ]
    )
    return Section("summary", "Summary", body, f"{counts['converged']:,} of {len(told.problems):,} converged")


def _problems(told: Told) -> Section:
    heads = ["problem", "status", "iterations", "objective", "gap at most", "relative gap", "nonzeros"]
    heads += ["zeros proved", "nonzeros proved", "support", "found by"]
    rows = [
        [
            one["label"],
            _verdict(one["status"], one["status"]),
            number(one["iterations"], ",d"),
            number(one["objective"], ".8g"),
            number(one["gap"], ".1e"),
            number(one["relative_gap"], ".1e"),
            number(one["nonzeros"], ",d"),
            number(one["proved"], ",d"),
            number(one["proved_nonzero"], ",d"),
            Cell("proved" if one["certified"] else "not proved"),
            one["track"],
        ]
        for one in told.problems[:MOST]
    ]
    body: list[Html] = []
    if len(told.problems) > MOST:
        body.append(element("p", f"The first {MOST:,} of {len(told.problems):,} problems.", class_="note"))
    body.append(table(heads, rows, f"{told.n:,} coefficients each; the objective is at most the gap above its minimum"))
    proved = sum(bool(one["certified"]) for one in told.problems)
    return Section("problems", "Problems", join(body), f"{proved:,} supports proved")


def _coefficients(told: Told) -> Section:
    shown = [problem["label"] for problem in told.problems[:BESIDE]]
    nonzero = {name: values for name, values in told.coefficients.items() if any(values)}
    rows: list[Row] = [
        [name, *(number(value, ".6g") if value else Cell("0", 0.0) for value in values[:BESIDE])]
        for name, values in nonzero.items()
    ]
    note = f"{len(nonzero):,} of {len(told.coefficients):,} coefficients are not zero"
    if len(told.problems) > BESIDE:
        note += f"; the first {BESIDE} of {len(told.problems):,} problems"
    return Section("coefficients", "Coefficients", table(["", *shown], rows, note), f"{len(nonzero):,} not zero")


def _verdict(status: str, text: str) -> Html:
    return element("span", text, class_=f"verdict {'good' if status == 'converged' else 'bad'}")
