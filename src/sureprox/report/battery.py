"""What the records of the battery say: speed-ups over the baseline, a table, and a performance profile."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sureprox.base.drawing import save_figure, tidy
from sureprox.base.words import plural
from sureprox.evaluation.battery_records import LEVELS, KindRecord
from sureprox.report.style import styles

BASELINE = "fista-restart"
TARGET = 1e-6
LABELS = {
    "fista": "FISTA",
    "fista-restart": "FISTA with restart",
    "go-math-l2o": "GO-Math-L2O",
    "l2o-pa": "L2O-PA",
    "sure": "Sure",
    "sure-light": "Sure light",
    "default": "default of solve",
}
WIDEST = 30.0  # factor at which the performance profile ends


@dataclass(frozen=True)
class Summary:
    """An optimizer over the kinds of a family; speed-up: the baseline's median iterations over its own."""

    optimizer: str
    family: str
    kinds: int
    mean: float  # geometric mean of the speed-ups
    kept_out: float | None  # the same over the kinds not seen in training
    worst: float
    worst_kind: str
    failures: int  # instances that never reach the target
    slower: int  # instances that need more iterations than the baseline
    instances: int


def baseline_of(records: Sequence[KindRecord], record: KindRecord) -> KindRecord | None:
    return next((r for r in records if r.kind == record.kind and r.optimizer == BASELINE), None)


def speedup(ours: KindRecord, baseline: KindRecord, level: float = TARGET) -> float:
    """Ratio of the medians; who never gets there is taken to get there at the iteration at which it was stopped."""
    mine, theirs = ours.quantile(level, 0.5), baseline.quantile(level, 0.5)
    return (baseline.most if theirs is None else max(theirs, 1)) / (ours.most if mine is None else max(mine, 1))


def slower(ours: KindRecord, baseline: KindRecord, level: float = TARGET) -> int:
    """Instances on which the baseline needs fewer iterations."""
    pairs = zip(ours.iterations[level], baseline.iterations[level], strict=True)
    return sum(theirs is not None and (mine is None or mine > theirs) for mine, theirs in pairs)


def summaries(records: Sequence[KindRecord], level: float = TARGET) -> list[Summary]:
    """One for each family and optimizer but the baseline, in the order in which they appear."""
    made = []
    for family, optimizer in dict.fromkeys((r.family, r.optimizer) for r in records):
        found = [
            (r, base)
            for r in records
            if (r.family, r.optimizer) == (family, optimizer) and (base := baseline_of(records, r)) is not None
        ]
        if optimizer == BASELINE or not found:
            continue
        ratios = {r.kind: speedup(r, base, level) for r, base in found}
        unseen = [ratios[r.kind] for r, _ in found if not r.trained]
        worst = min(ratios, key=lambda kind: ratios[kind])
        made.append(
            Summary(
                optimizer=optimizer,
                family=family,
                kinds=len(found),
                mean=geometric_mean(list(ratios.values())),
                kept_out=geometric_mean(unseen) if unseen else None,
                worst=ratios[worst],
                worst_kind=worst,
                failures=sum(r.failures(level) for r, _ in found),
                slower=sum(slower(r, base, level) for r, base in found),
                instances=sum(r.instances for r, _ in found),
            )
        )
    return made


def plain_defaults(records: Sequence[KindRecord]) -> str:
    """On which kinds the default of `solve` is no learned optimizer; empty if there are none."""
    kinds = list(dict.fromkeys(r.kind for r in records if r.optimizer == "default" and r.weights is None))
    if not kinds:
        return ""
    return (
        f"On {', '.join(kinds)} no learned optimizer is the default of solve: it is restarted FISTA, certified, two "
        "methods beside each other, of which the better point counts."
    )


def geometric_mean(values: Sequence[float]) -> float:
    return math.exp(sum(math.log(v) for v in values) / len(values))


def markdown(records: Sequence[KindRecord]) -> str:
    """Everything that was measured, as two tables."""
    about = records[0]
    lines = [
        f"{about.device}, {about.date}, torch {about.versions['torch']}, {about.dtype}, seed {about.seed}.",
        "",
        "Speed-up: median iterations to 1e-6 of FISTA with restart over those of the optimizer.",
        "",
        "| family | optimizer | kinds | geometric mean | kinds kept out | worst | failures | slower |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for s in summaries(records):
        kept_out = "" if s.kept_out is None else f"{s.kept_out:.2f}"
        lines.append(
            f"| {s.family} | {LABELS.get(s.optimizer, s.optimizer)} | {s.kinds} | {s.mean:.2f} | {kept_out} "
            f"| {s.worst:.2f} ({s.worst_kind}) | {s.failures} of {s.instances} | {s.slower} |"
        )
    if plain := plain_defaults(records):
        lines += ["", plain]
    levels = " | ".join(f"{level:g}" for level in LEVELS)
    lines += [
        "",
        "Iterations: median (90th percentile) of the instances. Products with A and seconds (whole batch): to 1e-6.",
        "A star marks kinds that Sure has seen in training.",
        "",
        f"| kind | size | instances | optimizer | {levels} | products | seconds | failures |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for r in records:
        cells = " | ".join(f"{_count(r.quantile(v, 0.5))} ({_count(r.quantile(v, 0.9))})" for v in LEVELS)
        seconds = "" if r.seconds is None else f"{r.seconds:.3g}"
        star = " *" if r.trained else ""
        lines.append(
            f"| {r.kind}{star} | {r.size[0]} x {r.size[1]} | {r.instances} | {LABELS.get(r.optimizer, r.optimizer)} "
            f"| {cells} | {_count(r.products_to(TARGET))} | {seconds} | {r.failures()} |"
        )
    return "\n".join(lines) + "\n"


def compact(records: Sequence[KindRecord]) -> tuple[list[str], list[list[str]]]:
    """Column headings and rows: for each kind and optimizer the median iterations to each level."""
    names = list(dict.fromkeys(r.optimizer for r in records))
    found = {(r.kind, r.optimizer): r for r in records}
    rows = []
    for kind, trained in dict.fromkeys((r.kind, r.trained) for r in records):
        cells = []
        for name in names:
            r = found.get((kind, name))
            cells.append("" if r is None else "/".join(_count(r.quantile(level, 0.5)) for level in LEVELS))
        rows.append([kind, "trained" if trained else "kept out", *cells])
    return [LABELS.get(name, name) for name in names], rows


def profile(records: Sequence[KindRecord], level: float = TARGET) -> dict[str, list[tuple[float, float]]]:
    """For each optimizer the points (t, share) of its performance profile.

    share: of the instances, every kind weighing the same, on which it needs at most t times the iterations of the best
    optimizer there.
    """
    names = list(dict.fromkeys(r.optimizer for r in records))
    by_kind: dict[str, dict[str, KindRecord]] = {}
    for r in records:
        by_kind.setdefault(r.kind, {})[r.optimizer] = r
    ratios: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    for kind in by_kind.values():
        rows = {name: kind[name].iterations[level] for name in kind}
        count = len(next(iter(rows.values())))
        for i in range(count):
            best = min((max(k, 1) for row in rows.values() if (k := row[i]) is not None), default=None)
            for name, row in rows.items():
                k = row[i]
                if k is not None and best is not None:
                    ratios[name].append((max(k, 1) / best, 1 / count / len(by_kind)))
    curves = {}
    for name, pairs in ratios.items():
        share, curve = 0.0, [(1.0, 0.0)]
        for ratio, weight in sorted(pairs):
            share += weight
            curve.append((ratio, share))
        curves[name] = curve
    return curves


def draw_profile(records: Sequence[KindRecord], path: Path) -> None:
    """One panel for each family."""
    from matplotlib.figure import Figure

    families = list(dict.fromkeys(r.family for r in records))
    figure = Figure(figsize=(4.6 * len(families), 3.6), layout="constrained")
    for place, family in enumerate(families):
        part = [r for r in records if r.family == family]
        curves = profile(part)
        look = styles([LABELS.get(name, name) for name in curves])
        axis = figure.add_subplot(1, len(families), place + 1)
        for name, curve in curves.items():
            style = look[LABELS.get(name, name)]
            points = [(t, share) for t, share in curve if t <= WIDEST]
            points.append((WIDEST, points[-1][1]))
            axis.step(
                [t for t, _ in points],
                [s for _, s in points],
                where="post",
                color=style.colour,
                linestyle=style.dashes,
                linewidth=style.width,
                label=LABELS.get(name, name),
            )
        axis.set_xscale("log")
        axis.set_xlim(1, WIDEST)
        axis.set_ylim(0, 1.02)
        axis.set_xticks([1, 2, 5, 10, 20], ["1", "2", "5", "10", "20"])
        axis.minorticks_off()
        axis.set_xlabel("iterations to 1e-6, times those of the best", fontsize=9)
        axis.set_ylabel("share of the instances" if place == 0 else "", fontsize=9)
        axis.set_title(f"{family}, {plural(len({r.kind for r in part}), 'kind')}", fontsize=9)
        tidy(axis)
        axis.tick_params(labelsize=8)
        axis.legend(fontsize=7, loc="lower right", frameon=False)
    save_figure(figure, path, dpi=150)


def _count(k: int | None) -> str:
    return "never" if k is None else str(k)
