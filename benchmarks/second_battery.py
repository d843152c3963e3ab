"""One Sure against the best classical opponent of each kind, over all losses, penalties and operators.

    python benchmarks/second_battery.py [--instances 8] [--seed 23] [--kinds lasso ...] [--parts]

Gradients to F - F* <= 1e-6 F*, of every instance alone, float64: an iteration is one evaluation of f and its gradient
for every method; an audit takes one more. The CPU seconds of one thread are those of the steps of the whole batch, and
of what a method has to know before the first (L among it), until half of the instances are there, by its kernels where
it has any. Opponents are the optimizers of the package at the best of several settings for each kind; ProxNewton, whose
steps are no gradients, takes part in the seconds only. Starts are zero; the moved starts of the paper are a group of
their own. `--parts` computes the kinds that are named and leaves them in --work, for a later run to put together;
`--finished` computes nothing, and the record names the kinds that are not there.
"""

import argparse
import json
import math
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import sureprox as sp
from sureprox.base.errors import InputError, SureproxError
from sureprox.base.files import write_atomically
from sureprox.evaluation.battery import draw
from sureprox.evaluation.battery_kinds import Kind
from sureprox.evaluation.datasets import Dataset, solved
from sureprox.evaluation.metrics import gap_scale, relative_gap
from sureprox.guarantee import Audited
from sureprox.optimizers import FISTA, PANOC, LocalFISTA, Optimizer, OptISTA, ProxNewton, SpaRSA, read_card
from sureprox.solve.plan import plan

from _battery_kinds import AT_ONCE, FROM_ZERO, MOVED_STARTS
from _record import write_record

LEVEL, MOST, NEWTON_STEPS = 1e-6, 20_000, 100
PATIENCE = 3  # nobody takes more steps than so many times those of restarted FISTA's slowest instance
BASELINE, SURE, AUDITED = "restarted FISTA", "sure", "sure, audited"
CLASSICAL: dict[str, Optimizer[Any]] = {
    BASELINE: FISTA(restart=True),
    "LocalFISTA": LocalFISTA(),
    "SpaRSA": SpaRSA(),
    "PANOC, memory 10": PANOC(10),
    "PANOC, memory 20": PANOC(20),
    "OptISTA, 100 steps a round": OptISTA(100),
    "ProxNewton": ProxNewton(),
}
Hits = list[int | None]


def contestants(kind: Kind, model: str) -> dict[str, Optimizer[Any]]:
    sure = {SURE: sp.load(model).double(), AUDITED: Audited(sp.load(model).double())}
    if kind.family in ("lasso", "logistic"):
        sure[f"sure/{kind.family}"] = sp.load(f"sure/{kind.family}").double()
    return CLASSICAL | sure


@torch.no_grad()
def race(optimizer: Optimizer[Any], data: Dataset, most: int) -> tuple[Hits, float | None]:
    """Iterations of every instance, and the CPU seconds after which half of them are there; None for never."""
    problem, start, scale = data.problem, data.start, gap_scale(data.best)[0]
    chosen = plan(problem, optimizer, wait=True).once()
    chosen.step(problem, chosen.init(problem, start))  # not timed: it may load a kernel
    began = time.process_time()
    state = chosen.init(problem, start)
    spent, half = time.process_time() - began, None
    hits: Hits = [None] * problem.batch
    seen = 0
    while True:
        if state.k - seen > state.k // 200 or state.k in (0, most):
            seen = state.k
            gap = relative_gap(problem.objective(shown(state)), data.best, scale)
            for i in (gap <= LEVEL).nonzero()[:, 0].tolist():
                hits[i] = state.k if hits[i] is None else hits[i]
            if half is None and 2 * hits.count(None) <= len(hits):
                half = spent
            if None not in hits or state.k >= most or not bool(torch.isfinite(gap).any()):
                return hits, half
        began = time.process_time()
        state = chosen.step(problem, state)
        spent += time.process_time() - began


def shown(state: Any) -> Tensor:
    """The point that a solve would measure: a guarantee keeps the best one, and knows a newer one."""
    point: Tensor = state.shown().x if hasattr(state, "shown") else state.x
    return point


def gradients(name: str, hits: Hits) -> Hits:
    if name != AUDITED:
        return hits
    return [k if k is None or k < 16 else k + int(math.log2(k / 8)) for k in hits]


def compared(kind: Kind, count: int, seed: int, model: str, cache: Path) -> dict[str, Any]:
    data = solved(draw(kind, count, seed), cache, torch.device("cpu"))
    f, most, methods = data.problem.f, MOST, {}
    for name, optimizer in contestants(kind, model).items():
        limit = NEWTON_STEPS if isinstance(optimizer, ProxNewton) else most
        try:
            hits, seconds = race(optimizer, data, limit)
        except InputError as error:
            methods[name] = {"left out": str(error)}
            continue
        if name == BASELINE:
            most = stopped_at(hits)
        steps = gradients(name, hits)
        methods[name] = {"gradients": steps, "median": median(steps), "cpu_seconds": seconds}
    return {
        "like_training": kind.trained,
        "origin": data.instances.origin,
        "instances": data.problem.batch,
        "size": [getattr(f, "m", 0), data.problem.n],
        "precision": data.precision,
        "methods": methods,
    }


def median(hits: Hits) -> float | None:
    """Instances that are not solved are slower than all others; None if they are half of them."""
    middle = statistics.median([math.inf if k is None else max(k, 1) for k in hits])
    return None if middle == math.inf else middle


def judged(row: dict[str, Any]) -> dict[str, Any]:
    """What a kind says: Sure against the best classical opponent, and against restarted FISTA.

    A median that is never reached counts as the steps after which the method was stopped; its seconds do not count.
    """
    methods = {name: found for name, found in row["methods"].items() if "left out" not in found}
    first = methods[BASELINE]["gradients"]
    limit = stopped_at(first)
    counts = {n: methods[n]["median"] or limit for n in methods if n in CLASSICAL and n != "ProxNewton"}
    clocks = {n: methods[n]["cpu_seconds"] for n in methods if n in CLASSICAL and methods[n]["cpu_seconds"]}
    best, quickest = min(counts, key=counts.__getitem__), min(clocks, key=clocks.__getitem__)
    found: dict[str, Any] = {"best": best, "best_gradients": counts[best], "quickest": quickest}
    for name in (n for n in methods if n not in CLASSICAL):
        ours, steps = methods[name], methods[name]["median"] or limit
        pairs = list(zip(ours["gradients"], first, strict=True))
        there, clock = ours["median"] is not None, ours["cpu_seconds"]
        found[name] = {
            "over_best": round(counts[best] / steps, 3),
            "over_restarted": round(counts[BASELINE] / steps, 3),
            "seconds_over_quickest": round(clocks[quickest] / clock, 3) if there else None,
            "seconds_over_restarted": round(clocks[BASELINE] / clock, 3) if there else None,
            "failures": sum(a is None for a, _ in pairs),
            "slower_than_restarted": sum(b is not None and (a is None or a > b) for a, b in pairs),
        }
    return found


def stopped_at(first: Hits) -> int:
    """Steps that everybody has, by those of restarted FISTA."""
    return min(MOST, PATIENCE * max(k or MOST for k in first) + 50)


def mean(values: list[float | None]) -> float | None:
    """Geometric, of those that are known."""
    known = [math.log(value) for value in values if value]
    return round(math.exp(statistics.fmean(known)), 3) if known else None


def summary(verdicts: dict[str, dict[str, Any]], name: str) -> dict[str, Any]:
    rows = {kind: verdict[name] for kind, verdict in verdicts.items() if name in verdict}
    found: dict[str, Any] = {"kinds": len(rows)}
    for key in ("over_best", "over_restarted", "seconds_over_quickest", "seconds_over_restarted"):
        found[key] = mean([row[key] for row in rows.values()])
    for key in ("failures", "slower_than_restarted"):
        found[key] = sum(row[key] for row in rows.values())
    if rows:
        worst = min(rows, key=lambda kind: rows[kind]["over_best"])
        found |= {"worst_kind": worst, "worst_over_best": rows[worst]["over_best"]}
    return found | {"kinds_below_one": [kind for kind, row in rows.items() if row["over_best"] < 1]}


def groups(rows: dict[str, dict[str, Any]]) -> dict[str, list[str]]:
    zero = [name for name in rows if name in FROM_ZERO]
    family = {name: (FROM_ZERO | MOVED_STARTS)[name].family for name in rows}
    return {
        "all": zero,
        "like training": [name for name in zero if rows[name]["like_training"]],
        "kept out of training": [name for name in zero if not rows[name]["like_training"]],
        "lasso": [name for name in zero if family[name] == "lasso"],
        "logistic": [name for name in zero if family[name] == "logistic"],
        "other forms": [name for name in zero if family[name] == "forms"],
        "left to the default": [name for name in zero if family[name] == "forms" and name not in AT_ONCE],
        "moved starts": [name for name in rows if name in MOVED_STARTS],
    }


def table(rows: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """For the page: a row for each kind."""
    shown = {}
    for kind, row in rows.items():
        verdict, methods = row["verdict"], row["methods"]
        ours = verdict.get(SURE)
        shown[kind] = {
            "like training": "yes" if row["like_training"] else "no",
            "restarted FISTA": methods[BASELINE]["median"],
            "best classical": verdict["best_gradients"],
            "which": verdict["best"],
            "sure": methods[SURE]["median"] if ours else "refused",
            "best / sure": ours["over_best"] if ours else "-",
            "seconds, quickest / sure": ours["seconds_over_quickest"] if ours else "-",
            "quickest": verdict["quickest"],
        }
    return shown


def main() -> None:
    parser = argparse.ArgumentParser(description="The second battery.")
    parser.add_argument("--instances", type=int, default=8)
    parser.add_argument("--seed", type=int, default=23)
    parser.add_argument("--model", default="sure/general")
    parser.add_argument("--kinds", nargs="*", default=[*FROM_ZERO, *MOVED_STARTS])
    parser.add_argument("--work", type=Path, default=Path("out/second_battery"))
    parser.add_argument("--parts", action="store_true")
    parser.add_argument("--finished", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    weights = read_card(options.model).sha256
    rows: dict[str, dict[str, Any]] = {}
    for name in options.kinds:
        kind = (FROM_ZERO | MOVED_STARTS)[name]
        kept = options.work / f"{kind.name}-{options.instances}-{options.seed}-{weights[:12]}.json"
        if options.finished and not kept.exists():
            continue
        if not kept.exists():
            began = time.perf_counter()
            try:
                row = compared(kind, options.instances, options.seed, options.model, options.work)
            except SureproxError as error:  # no data, or no F*
                print(f"{name} is left out: {error}", flush=True)
                continue
            write_atomically(kept, json.dumps(row).encode())
            print(f"{name}: {time.perf_counter() - began:.0f} s", flush=True)
        row = json.loads(kept.read_text())
        if row["methods"][BASELINE]["median"] is None:
            print(f"{name} is left out: restarted FISTA does not solve it in {MOST} steps", flush=True)
            continue
        rows[name] = row | {"verdict": judged(row)}
        print(name, json.dumps(rows[name]["verdict"]), flush=True)
    if options.parts:
        return
    verdicts = {name: row["verdict"] for name, row in rows.items()}
    models = (SURE, AUDITED, "sure/lasso", "sure/logistic")
    found = {
        group: {name: summary({kind: verdicts[kind] for kind in kinds}, name) for name in models}
        for group, kinds in groups(rows).items()
    }
    for group, each in found.items():
        print(group, json.dumps(each), flush=True)
    command = " ".join(["python benchmarks/second_battery.py", *sys.argv[1:]])
    setting = {"instances": options.instances, "seed": options.seed, "level": LEVEL, "dtype": "float64", "threads": 1}
    setting |= {"model": options.model, "weights": weights}
    missing = [name for name in options.kinds if name not in rows]
    about = {"command": command, "setting": setting, "not_measured": ", ".join(missing) or "-", "summary": found}
    print(write_record("second_battery", about | {"table": table(rows), "kinds": rows}))


if __name__ == "__main__":
    main()
