"""A directory with made-up records of every kind, small, with a divergence and names to choose."""

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from evaluation_cases import falling, growing, made_up_figure
from sureprox.evaluation.battery_records import KindRecord, write_records
from sureprox.evaluation.record_files import write_figure

EVIL = '</script><img src=x onerror="alert(1)">&"\'<!--'
VERSIONS = {"torch": "2.0", "sureprox": "0"}


def made_up_kind(kind: str, optimizer: str, iterations: list[int | None], **changes: Any) -> KindRecord:
    """The same iterations to every level."""
    fields: dict[str, Any] = {
        "kind": kind, "family": "lasso", "trained": True, "optimizer": optimizer, "weights": None, "origin": "made up",
        "seed": 7, "instances": len(iterations), "size": (20, 40), "precision": 1e-13, "dtype": "float32", "most": 4000,
        "products_at_start": 0, "products": 2, "seconds": 0.5,
        "iterations": {level: list(iterations) for level in (1e-3, 1e-6, 1e-9)},
        "device": "CPU of a test", "date": "2026-01-03", "versions": VERSIONS,
    }  # fmt: skip
    return KindRecord(**(fields | changes))


def write_all(directory: Path, name: str = "") -> None:
    """Figures 1 and 3, a battery, an audit and a training log; `name` appears in all of them."""
    write_figures(directory / "reproduction", name)
    write_battery(directory / "battery" / "battery.json", name)
    write_audit(directory / "audit" / "audit.json", name)
    write_log(directory / "training" / "run.jsonl", name)


def write_figures(directory: Path, name: str = "") -> None:
    means = {"l2o-pa/lasso": growing(400), "*": falling(150, 400)}
    for figure in ("fig1", "fig3"):
        write_figure(directory / f"{figure}.json", made_up_figure(figure, means, device=f"CPU of a test{name}"))


def write_battery(path: Path, name: str = "") -> None:
    records = [
        made_up_kind(f"kind{name}", "fista-restart", [100, 200]),
        made_up_kind(f"kind{name}", f"sure{name}", [50, None]),
        made_up_kind("other", "fista-restart", [30, 60], family="logistic"),
        made_up_kind("other", "sure", [30, 20], family="logistic"),
    ]
    write_records(path, records)


def write_audit(path: Path, name: str = "") -> None:
    statement = {
        "name": f"Lemma 1{name}", "line": 1, "claim": "a < b", "verdict": "false", "remark": "n = 1 only", "runs": 3,
        "inequalities": {"printed": 9, "corrected": 9, "free": 9},
        "worst_slack": {"printed": -0.5, "corrected": 0.25, "free": None},
    }  # fmt: skip
    model = {
        "model": f"m/lasso{name}", "scenario": "s = 10", "steps": 2, "diverged": False, "words": ["F fell."],
        "worst_slack": {"Lemma 1": 0.0}, "gain": [[-1.0, -0.5]], "bound": [[3.0, 4.0]],
        "bound_in_norms": [[30.0, 40.0]], "gap": [[2.0, 1.0, 0.5]],
    }  # fmt: skip
    example = {"statement": "Lemma 1", "instance": "f = 0", "lhs": 1.0, "printed": 0.0, "corrected": None}
    content = {
        "seed": 3, "instances": 1, "steps": 2, "notes": [], "statements": [statement], "models": [model],
        "counterexamples": [example],
        "growth": [{"model": f"m/lasso{name}", "s": [0.0, 1.0, 10.0], "terms": {"|s|": [0.0, 1.0, 10.0]}}],
    }  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))


def write_log(path: Path, name: str = "", batches: int = 12) -> None:
    recipe = {"optimizer": f"go{name}", "family": {"name": "lasso", "m": 20, "n": 40}, "training": {"seed": 4}}
    start = {"event": "start", "batch": 0, "seconds": 0.0, "device": "cpu", "recipe": recipe}
    events: list[dict[str, Any]] = [start, {"event": "validation", "batch": 0, "seconds": 0.0, "loss": None}]
    for k in range(1, batches + 1):
        loss = None if k == 2 else 8.0 / k
        events.append({"event": "batch", "batch": k, "seconds": 0.5 * k, "loss": loss, "rate": 0.1, "skipped": k == 2})
    events.append({"event": "validation", "batch": batches, "seconds": 6.0, "loss": 0.75})
    events.append({"event": "end", "batch": batches, "seconds": 6.0, "completed": True})
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(event) + "\n" for event in events))


class Page(HTMLParser):
    """What a browser sees of a page: its elements, where it would fetch from, its text, styles, scripts and cells."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.names: list[str] = []  # of all attributes
        self.policy = ""
        self.ids: list[str] = []
        self.inside: dict[str, list[str]] = {}
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag != "meta":
            self.open.append(tag)
            self.inside.setdefault(tag, []).append("")
        for name, value in attributes:
            self.names.append(name)
            if name in ("src", "href", "action", "data", "poster"):
                self.addresses.append(value or "")
            if name == "id":
                self.ids.append(value or "")
        if dict(attributes).get("http-equiv") == "Content-Security-Policy":
            self.policy = dict(attributes)["content"] or ""

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        for tag in set(self.open):
            self.inside[tag][-1] += data

    @property
    def charts(self) -> list[dict[str, Any]]:
        return json.loads(self.inside["script"][0])
