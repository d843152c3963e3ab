"""benchopt's public benchmarks of the LASSO and of sparse logistic regression, with the solvers in `benchopt/`.

    git clone https://github.com/benchopt/benchmark_lasso
    git clone https://github.com/benchopt/benchmark_logreg_l1
    python benchmarks/public_benchopt.py FOLDER [--timeout 5] [--repetitions 1] [--only lasso]

FOLDER holds the clones, which stay as they are: copies of them get our solvers and data sets, and benchopt runs them,
each solver until it makes no more progress, or for `--timeout` seconds (in the copies, `__init__` calls that of its
parent, which benchopt 1.10 needs and they, made for 1.5 to 1.7, do not do). A solver that cannot be imported is
left out. The data are the simulated ones of the benchmarks and those of scikit-learn that need no download.

For each problem the record has the seconds until (F - F*) / F* <= 1e-3, 1e-6 and 1e-9, F* being the lowest F of all
solvers, null where that was not reached; the figure has the curves at reg = 0.1.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import matplotlib
import pandas as pd

from _record import RECORDS, write_record

matplotlib.use("agg")
from matplotlib import pyplot as plt

OURS = Path(__file__).parents[1] / "benchopt"
FIGURE = Path(__file__).parents[1] / "docs" / "images" / "benchopt.png"
SOLVERS = {
    "lasso": ["sureprox", "sklearn", "Celer", "Python-PGD[use_acceleration=True]", "lars", "noncvx-pro"],
    "logreg_l1": ["sureprox", "sklearn", "Celer", "Plain-FISTA"],
}
FISTA = {"lasso": "Python-PGD[use_acceleration=True]", "logreg_l1": "Plain-FISTA"}
OBJECTIVE = {"lasso": "Lasso Regression[fit_intercept=False]", "logreg_l1": "Sparse Logistic Regression"}
DATA = {"lasso": ["Simulated", "Diabetes"], "logreg_l1": ["Simulated", "BreastCancer"]}
INIT = re.compile(r"(    def __init__\(.*?\):)")  # benchopt 1.10 asks for what classes made for 1.5 to 1.7 leave out
LEVELS = (1e-3, 1e-6, 1e-9)
SHOWN = 0.1  # reg, in the figure
OPTIONS = {"device=cpu", "engine=auto"}  # the same everywhere: no part of a name


def run(folder: Path, name: str, timeout: float, repetitions: int, small: bool) -> pd.DataFrame:
    """All evaluations of all solvers."""
    with TemporaryDirectory() as place:
        home = Path(place) / f"benchmark_{name}"
        shutil.copytree(folder / home.name, home, ignore=shutil.ignore_patterns(".git", "outputs"))
        for kind in ("solvers", "datasets"):
            shutil.copytree(OURS / home.name / kind, home / kind, dirs_exist_ok=True)
        for file in (home / "objective.py", home / "datasets" / "simulated.py"):
            file.write_text(INIT.sub(r"\1\n        super().__init__()", file.read_text()))
        command = [sys.executable, "-m", "benchopt", "run", str(home), "--no-plot", "--no-html", "-n", "200"]
        command += ["-r", str(repetitions), "--timeout", str(timeout), "-o", OBJECTIVE[name]]
        for data in DATA[name][1:] if small else DATA[name]:
            command += ["-d", data]
        for solver in SOLVERS[name]:
            command += ["-s", solver]
        subprocess.run(command, check=True, env=os.environ | {"MPLBACKEND": "agg"})
        (found,) = (home / "outputs").glob("*.parquet")
        return pd.read_parquet(found)


def summary(table: pd.DataFrame) -> list[dict[str, Any]]:
    """A row for each problem."""
    rows = []
    for (data, objective), runs in table.groupby(["dataset_name", "objective_name"]):
        best = runs["objective_value"].min()
        names = [short(solver) for solver in runs["solver_name"]]
        error = (runs["objective_value"] - best) / abs(best)
        curves = pd.DataFrame({"solver": names, "run": runs["idx_rep"], "seconds": runs["time"], "error": error})
        row: dict[str, Any] = {"data": data, "reg": float(runs["p_obj_reg"].iloc[0]), "objective": objective}
        row["seconds"] = {solver: reached(of) for solver, of in curves.groupby("solver")}
        row["curves"] = {solver: curve(of) for solver, of in curves.groupby("solver")}
        rows.append(row)
    return rows


def short(solver: str) -> str:
    """Without the options that are the same everywhere."""
    name, _, options = solver.partition("[")
    kept = [option for option in options.rstrip("]").split(",") if option and option not in OPTIONS]
    return f"{name}[{','.join(kept)}]" if kept else name


def reached(curves: pd.DataFrame) -> dict[str, float | None]:
    """The median over the repetitions of the first time at which each level is reached; null if one never does."""
    times = {}
    for level in LEVELS:
        first = [run[run["error"] <= level]["seconds"].min() for _, run in curves.groupby("run")]
        median = pd.Series(first).median(skipna=False)
        times[f"{level:g}"] = None if pd.isna(median) else round(float(median), 6)
    return times


def curve(curves: pd.DataFrame) -> list[tuple[float, float]]:
    """Of the first repetition: seconds and the lowest error so far."""
    first = curves[curves["run"] == curves["run"].min()].sort_values("seconds")
    errors = first["error"].cummin()
    return [(float(f"{s:.3g}"), float(f"{e:.3g}")) for s, e in zip(first["seconds"], errors, strict=True)]


def verdict(name: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """On how many problems our default is first, last, and behind plain FISTA, by the time to 1e-6."""
    ours, level = "sureprox[optimizer=default]", "1e-06"
    places, ratios = [], []
    for row in rows:
        times = {solver: found[level] or float("inf") for solver, found in row["seconds"].items()}
        others = [time for solver, time in times.items() if not solver.startswith("sureprox")]
        places.append(1 + sum(time < times[ours] for time in others))
        ratios.append(times[FISTA[name]] / times[ours])
        row["place of our default"], row["solvers of others"] = places[-1], len(others)
    last = sum(place > row["solvers of others"] for place, row in zip(places, rows, strict=True))
    behind = sum(ratio <= 1 for ratio in ratios)
    facts = {"problems": len(rows), "first": places.count(1), "last": last, "behind plain FISTA": behind}
    return facts | {
        "least times faster than plain FISTA": None if min(ratios) == float("inf") else round(min(ratios), 1)
    }


def draw(record: dict[str, Any]) -> None:
    chosen = [(name, row) for name in record for row in record[name]["rows"] if row["reg"] == SHOWN]
    height = (len(chosen) + 3) // 4
    figure, axes = plt.subplots(height, 4, figsize=(15, 3.1 * height), squeeze=False)
    solvers = list(dict.fromkeys(solver for _, row in chosen for solver in row["curves"]))
    colors = {solver: f"C{place}" for place, solver in enumerate(solvers)}
    for (name, row), axis in zip(chosen, axes.flat, strict=False):
        for solver, points in row["curves"].items():
            seconds, errors = zip(*points, strict=True)
            style = "-" if solver.startswith("sureprox") else "--"
            axis.loglog([max(s, 1e-5) for s in seconds], [max(e, 1e-12) for e in errors], style, color=colors[solver])
        axis.set_title(f"{'LASSO' if name == 'lasso' else 'logistic'}, {row['data']}", fontsize=8)
        axis.set_ylim(1e-12, 10)
    for axis in axes.flat[len(chosen) :]:
        axis.axis("off")
    for axis in axes[-1]:
        axis.set_xlabel("seconds")
    for axis in axes[:, 0]:
        axis.set_ylabel("(F - F*) / F*")
    lines = [plt.Line2D([], [], color=colors[s], linestyle="-" if s.startswith("sureprox") else "--") for s in solvers]
    figure.legend(lines, solvers, loc="lower center", ncols=4, fontsize=9)
    figure.tight_layout(rect=(0, 0.1, 1, 1))
    figure.savefig(FIGURE, dpi=90)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--timeout", type=float, default=5.0)
    parser.add_argument("--repetitions", type=int, default=1)
    parser.add_argument("--only", choices=SOLVERS, help="keeps the other one of the record")
    parser.add_argument("--small", action="store_true", help="real data only, and no record")
    options = parser.parse_args()
    kept = RECORDS / "public_benchopt.json"
    record = json.loads(kept.read_text())["benchmarks"] if options.only and kept.exists() else {}
    for name in [options.only] if options.only else list(SOLVERS):
        rows = summary(run(options.folder, name, options.timeout, options.repetitions, options.small))
        commit = ["git", "-C", str(options.folder / f"benchmark_{name}"), "log", "-1", "--format=%H"]
        found = subprocess.run(commit, capture_output=True, text=True, check=True).stdout.strip()
        record[name] = {"commit": found, "verdict": verdict(name, rows), "rows": rows}
        print(name, record[name]["verdict"], flush=True)
    if options.small:
        return
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    versions = {package: version(package) for package in ("benchopt", "scikit-learn", "celer", "scipy")}
    protocol = f"{options.repetitions} repetitions, at most {options.timeout:g} seconds a run, on {cores} core(s)"
    print(write_record("public_benchopt", {"peers": versions, "protocol": protocol, "benchmarks": record}))
    draw(record)


if __name__ == "__main__":
    main()
