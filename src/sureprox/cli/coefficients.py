"""Coefficients of a table by the names of its columns: for the screen, for JSON, and for the files."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from sureprox.cli.tables import new_table, table_console
from sureprox.solve.solve import Solution
from sureprox.sources.problem_files import Columns, Loaded
from sureprox.sources.problem_files.limits import Array

SHOWN = 20  # features
BESIDE = 4  # problems in a table


@dataclass(frozen=True)
class Coefficients:
    """x (B, n) and the intercept (B,) in the units of the table; a label and a target for each problem."""

    columns: Columns
    x: Array
    intercept: Array
    targets: list[str]
    labels: list[str]

    @classmethod
    def of(cls, solution: Solution, loaded: Loaded) -> "Coefficients | None":
        """None where the problems do not come from a table."""
        columns = loaded.columns
        if columns is None or solution.x.shape[1] not in (len(columns.features), len(columns.features) + 1):
            return None  # softmax has a coefficient for each feature and class
        x, intercept = columns.restored(solution.x.detach().cpu().double().numpy())
        each = len(x) // len(columns.targets)
        targets = [name for name in columns.targets for _ in range(each)]
        weight = next((loaded.penalty[name] for name in ("lam", "l1") if name in loaded.penalty), None)
        labels = list(targets)
        if weight is not None and each > 1 and weight.numel() == len(x):
            values = [f"{value:.4g}" for value in weight.flatten().tolist()]
            labels = [f"{name}, lam {value}" for name, value in zip(targets, values, strict=True)]
        return cls(columns, x, intercept, targets, labels)

    @property
    def headings(self) -> tuple[str, ...]:
        return ("target", "intercept", *(f"coef_{name}" for name in self.columns.features))

    def cells(self, i: int) -> tuple[Any, ...]:
        """What `headings` name, of problem i."""
        return (self.targets[i], float(self.intercept[i]), *self.x[i].tolist())

    def arrays(self) -> dict[str, Array]:
        """For a .npz: x in the units of the table, and all names."""
        return {
            "x": self.x,
            "intercept": self.intercept,
            "features": np.array(self.columns.features),
            "target": np.array(self.targets),
        }

    def nonzero(self, i: int) -> dict[str, float]:
        """By name, the largest first."""
        order = np.argsort(-np.abs(self.x[i]), kind="stable")
        return {self.columns.features[j]: float(self.x[i, j]) for j in order if self.x[i, j] != 0}

    def as_dict(self, i: int) -> dict[str, Any]:
        finite = bool(np.isfinite(self.x[i]).all())
        return {
            "target": self.targets[i],
            "intercept": float(self.intercept[i]) if finite else None,
            "coefficients": self.nonzero(i) if finite else None,
        }

    def show(self, out: str) -> None:
        """A table of the coefficients that are not zero, for the first problems side by side."""
        shown = range(min(len(self.x), BESIDE))
        largest = np.abs(self.x[: len(shown)]).max(0)
        order = [j for j in np.argsort(-largest, kind="stable") if largest[j] > 0]
        table = new_table("coefficient", None, *(self.labels[i] for i in shown))
        if self.columns.intercept:
            table.add_row("(intercept)", *(f"{self.intercept[i]:.6g}" for i in shown))
        for j in order[:SHOWN]:
            cells = (f"{self.x[i, j]:.6g}" if self.x[i, j] != 0 else "0" for i in shown)
            table.add_row(self.columns.features[j], *cells)
        console = table_console()
        console.print(table)
        n = len(self.columns.features)
        left = f"; {len(order) - SHOWN:,} more are in {out}" if len(order) > SHOWN else ""
        console.print(f"{len(order):,} of {n:,} features have a coefficient that is not zero{left}")
        if len(self.x) > len(shown):
            console.print(f"shown: {len(shown)} of {len(self.x):,} problems; all are in {out}")
        if self.columns.index is not None:
            kept = "it holds text" if self.columns.index_is_text else "--index none keeps it as a feature"
            console.print(f"column {self.columns.index!r} was taken as an index; {kept}")
