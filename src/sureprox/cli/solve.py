"""`sureprox solve`: problems of a file to solutions with certificates, and a summary."""

import csv
import io
import json
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import typer
from rich.progress import BarColumn, MofNCompleteColumn, TimeElapsedColumn
from rich.progress import Progress as Bars
from torch import Tensor

from sureprox.base.errors import InputError
from sureprox.base.files import write_atomically
from sureprox.cli.choices import name_of
from sureprox.cli.coefficients import Coefficients
from sureprox.cli.tables import Description, PlainConsole, counted, new_table, table_console
from sureprox.problems import Problem
from sureprox.problems.forms import Shape, lam_of, shape_of
from sureprox.report.page.solve_page import Told, solve_page
from sureprox.solve.solve import Progress, Solution, require_known, solve
from sureprox.sources.problem_files import Loaded

QUANTILES = {"min": 0.0, "median": 0.5, "q90": 0.9, "max": 1.0}
UNSOLVED = 1  # exit code
LISTED = 20  # problems that are shown one by one
ARRAYS = (
    *("x", "objective", "gap", "kkt", "iterations", "rate", "credit", "pull_backs", "rejected", "refined"),
    *("inactive", "active", "support_certified"),
)
COLUMNS = ("objective", "gap", "relative_gap", "iterations", "status", "track")


@dataclass(frozen=True)
class Request:
    """How the problems are solved."""

    optimizer: str | None
    tol: float
    max_iter: int
    certify: bool | str
    device: torch.device
    polish: bool = True
    engine: str = "auto"
    rigorous: bool = False


def run(loaded: Loaded, request: Request, out: Path, table: Path | None, report: Path | None, *, as_json: bool) -> None:
    """Solve, write the results, show them; ends with exit code 1 if a problem is not solved."""
    if request.optimizer is not None:
        require_known(request.optimizer)
    problem = loaded.problem.to(device=request.device)
    x0 = None if loaded.x0 is None else loaded.x0.to(request.device)
    console = PlainConsole(stderr=True)
    shown = (Description(), BarColumn(20), MofNCompleteColumn(), TimeElapsedColumn())
    with Bars(*shown, console=console, transient=True, disable=not console.is_terminal) as bars:
        task = bars.add_task(counted(problem.batch), total=request.max_iter)

        def heard(seen: Progress) -> None:
            line = f"{seen.unfinished:,} of {counted(problem.batch)} left, worst gap {seen.worst_gap:.1e}"
            bars.update(task, completed=seen.k, description=line)

        began = time.perf_counter()
        try:
            limits = (request.max_iter, request.tol, request.certify)
            polish = None if request.polish else False
            options: dict[str, Any] = {"polish": polish, "engine": request.engine, "rigorous": request.rigorous}
            solution = solve(problem, request.optimizer, x0, *limits, callback=heard, **options)
        except RuntimeError as error:
            if "memory" not in str(error):
                raise
            raise InputError(
                f"{counted(problem.batch)} do not fit in the memory of {request.device.type}; "
                "solve them in chunks: --shards DIR"
            ) from None
        seconds = time.perf_counter() - began
    named = Coefficients.of(solution, loaded)
    write_atomically(out, npz(solution, loaded, problem, request.tol, named))
    if table is not None:
        write_atomically(table, csv_lines(solution, named).encode())
    found = summary(loaded, request, problem, solution, seconds) | {"out": str(out)}
    if report is not None:
        write_atomically(report, solve_page(told(found, solution, named)).encode())
    if as_json:
        print(json.dumps(found | {"instances": rows(solution, named)}, indent=2, allow_nan=False))
    else:
        _show(found, rows(solution), [str(i) for i in range(problem.batch)] if named is None else named.labels)
        if named is not None:
            named.show(str(out))
    failed = int((~solution.converged).sum())
    if failed:
        limit = f"did not converge within {request.max_iter:,} iterations; raise --max-iter or --tol"
        print(f"sureprox: {failed:,} of {counted(problem.batch)} {limit}", file=sys.stderr)
        raise typer.Exit(UNSOLVED)


def columns(solution: Solution) -> dict[str, Any]:
    """A list of `COLUMNS` for each instance."""
    objective, gap = solution.objective.tolist(), solution.gap.tolist()
    return {
        "objective": objective,
        "gap": gap,
        "relative_gap": [g / F if F > 0 else g for g, F in zip(gap, objective, strict=True)],
        "iterations": solution.iterations.tolist(),
        "status": [str(status) for status in solution.status],
        "track": [str(track) for track in solution.track],
    }


def rows(solution: Solution, named: Coefficients | None = None) -> list[dict[str, Any]]:
    """One for each instance; what is not finite is None, since JSON has no word for it."""
    made = columns(solution)
    return [
        {name: _finite(made[name][i]) for name in COLUMNS}
        | {"problem": i}
        | ({} if named is None else named.as_dict(i))
        for i in range(len(solution.iterations))
    ]


def npz(solution: Solution, loaded: Loaded, problem: Problem, tol: float, named: Coefficients | None = None) -> bytes:
    """The whole solution as a .npz file: arrays named as in `Solution`, status, track and loss as text.

    The numbers of the penalty are named as the keys of a problem file: () for all, (B, 1), (1, n) or (B, n).
    """
    content: dict[str, Any] = {name: getattr(solution, name).cpu().numpy() for name in ARRAYS}
    content |= {name: np.array(columns(solution)[name]) for name in ("status", "track")}
    if shape_of(problem) is Shape.L1:
        content["lam"] = lam_of(problem).cpu().numpy()
    content |= {"loss": np.array(loaded.loss.value), **{name: size.numpy() for name, size in loaded.penalty.items()}}
    content |= {} if named is None else named.arrays()
    buffer = io.BytesIO()
    np.savez(buffer, **content, converged=solution.converged.numpy(), tol=np.float64(tol))
    return buffer.getvalue()


def csv_lines(solution: Solution, named: Coefficients | None = None) -> str:
    """A header, then one line for each instance."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(("problem", *COLUMNS, *(() if named is None else named.headings)))
    made = columns(solution)
    for i in range(len(solution.iterations)):
        cells = () if named is None else named.cells(i)
        writer.writerow((i, *(made[name][i] for name in COLUMNS), *cells))
    return buffer.getvalue()


def summary(loaded: Loaded, request: Request, problem: Problem, solution: Solution, seconds: float) -> dict[str, Any]:
    made = columns(solution)
    steps = np.sort(np.array(made["iterations"]))
    quantile = {name: int(np.quantile(steps, share, method="higher")) for name, share in QUANTILES.items()}
    return {
        "source": loaded.source,
        "kind": str(loaded.kind),
        "loss": loaded.loss.value,
        "penalty": {name: penalty_number(name, size) for name, size in loaded.penalty.items()},
        "problems": problem.batch,
        "m": getattr(problem.f, "m", None),
        "n": problem.n,
        "intercept": loaded.columns is not None and loaded.columns.own_coordinate,
        "optimizer": name_of(request.optimizer, problem) if request.optimizer or solution.iterations.any() else None,
        "certify": request.certify,
        "tol": request.tol,
        "device": request.device.type,
        "dtype": str(problem.dtype).removeprefix("torch."),
        "seconds": round(seconds, 4),
        "status": dict(Counter(made["status"])),
        "iterations": quantile,
        "worst_relative_gap": _finite(max(made["relative_gap"])),
        "rigorous": solution.rigorous,
        "proved": {
            "supports": int(solution.support_certified.sum()),
            "zeros": int(solution.inactive.sum()),
            "nonzeros": int(solution.active.sum()),
        },
    }


def penalty_number(name: str, size: Tensor) -> Any:
    """A number; [smallest, largest] where it is not the same everywhere; of `groups`, how many there are."""
    if name == "groups":
        return int(size.max()) + 1
    ends = [_finite(float(size.min())), _finite(float(size.max()))]
    return ends[0] if ends[0] == ends[1] else ends


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not np.isfinite(value) else value


def _show(found: dict[str, Any], instances: list[dict[str, Any]], labels: list[str]) -> None:
    console = table_console()
    if len(instances) <= LISTED:
        table = new_table("problem", "status", "iterations", "objective", "relative gap", "found by")
        for row in instances:
            gap = "unknown" if row["relative_gap"] is None else f"{row['relative_gap']:.1e}"
            objective = "not finite" if row["objective"] is None else f"{row['objective']:.8g}"
            table.add_row(labels[row["problem"]], row["status"], f"{row['iterations']:,}", objective, gap, row["track"])
        console.print(table)
    table = new_table("summary", "")
    for name, text in _lines(found).items():
        table.add_row(name, text)
    console.print(table)


def told(found: dict[str, Any], solution: Solution, named: Coefficients | None) -> Told:
    """What the page of --report shows."""
    labels = [str(i) for i in range(found["problems"])] if named is None else named.labels
    facts = {
        "nonzeros": (solution.x != 0).sum(1).tolist(),
        "proved": solution.inactive.sum(1).tolist(),
        "proved_nonzero": solution.active.sum(1).tolist(),
        "certified": solution.support_certified.tolist(),
    }
    problems = [
        row | {"label": labels[i]} | {name: values[i] for name, values in facts.items()}
        for i, row in enumerate(rows(solution))
    ]
    coefficients: dict[str, list[float]] = {}
    if named is not None and bool(np.isfinite(named.x).all()):
        level = {"(intercept)": named.intercept.tolist()} if named.columns.intercept else {}
        coefficients = level | dict(zip(named.columns.features, named.x.T.tolist(), strict=True))
    return Told(found["source"], _lines(found), problems, found["n"], coefficients)


def _lines(found: dict[str, Any]) -> dict[str, str]:
    """The summary in words."""
    worst = found["worst_relative_gap"]
    told = ", with all rounding errors" if found["rigorous"] else ""
    n = found["n"] - found["intercept"]
    size = f"{found['m']:,} x {n:,}{' and an intercept' if found['intercept'] else ''}"
    return {
        "problems": f"{found['problems']:,} {found['kind']}, {size}, from {found['source']}",
        **({} if not found["penalty"] else {"penalty": _listed(found["penalty"])}),
        "optimizer": f"{found['optimizer'] or 'none needed'}, {found['dtype']} on {found['device']}",
        "status": ", ".join(f"{count:,} {name}" for name, count in found["status"].items()),
        "iterations": _spread(found["iterations"]),
        "worst relative gap": "unknown" if worst is None else f"{worst:.1e} (asked for {found['tol']:.1e}{told})",
        "proved": ", ".join(f"{count:,} {what}" for what, count in found["proved"].items()),
        "seconds": f"{found['seconds']:.3g}",
        "solutions": found["out"],
    }


def _spread(quantiles: dict[str, int]) -> str:
    """min 10, median 20, q90 30, max 40; 10 where all are the same."""
    if quantiles["min"] == quantiles["max"]:
        return f"{quantiles['max']:,}"
    return ", ".join(f"{name} {value:,}" for name, value in quantiles.items())


def _listed(penalty: dict[str, Any]) -> str:
    """l1 0.5, l2 0.1 to 2."""

    def text(value: Any) -> str:
        if isinstance(value, list):
            return " to ".join(text(end) for end in value)
        return "unbounded" if value is None else f"{value:g}"

    return ", ".join(f"{name} {text(value)}" for name, value in penalty.items())
