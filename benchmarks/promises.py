"""Promises of the shipped models on kinds of the battery: counts of problems by `sureprox.evaluation.promise`.

    python benchmarks/promises.py [--minutes 60] [--cards]

Goes on where an earlier run has ended: the record holds the counts of each draw, chunk after chunk, from which the
promises are computed. All models of a kind run on the same problems. --cards only writes what the record says on the
cards of the models. Left out: `patches`, which are a list and no draw, and kinds whose data are not here.
"""

import argparse
import json
import time
import warnings
from collections import Counter
from typing import Any

import torch

from sureprox.base.errors import DataError
from sureprox.evaluation.battery import chosen
from sureprox.evaluation.battery_forms import FORM_KINDS, FORMS
from sureprox.evaluation.battery_kinds import KINDS, Kind
from sureprox.evaluation.promise import (
    CHUNK,
    MOST,
    Counts,
    Promise,
    chunk,
    made,
    on_card,
    optimizer_of,
    percent,
    within_reach,
)

from _record import RECORDS, write_record

CHUNKS = {"pilot": 2, "held out": 20, "fresh": 40}  # of CHUNK problems each
PAPER = ("lasso", "lasso-start+10", "lasso-start-10", "lasso-start+100", "lasso-start-100")
FIRST = ("lasso", "logistic", "lasso-64x128", *PAPER[1:4])
LAST = ("lasso-500x2000", "lasso-2000x500", "lasso-start+1000", "logistic-start+100")
OUT = ("patches", "group", "group-large", "deconvolution", "deconvolution-wide", "sparse", "sparse-tall")
Table = dict[str, dict[str, dict[str, Any]]]


def models_for(kind: Kind) -> list[str]:
    """Those that are meant for it."""
    own = [f"sure/{kind.family}", f"sure/{kind.family}-light"] if kind.family in ("lasso", "logistic") else []
    paper = [f"go-math-l2o/{kind.family}", f"l2o-pa/{kind.family}"]
    return [*own, "sure/general", *(paper if kind.name in (*PAPER, "logistic") else [])]


def jobs() -> list[tuple[str, str]]:
    """Kinds and draws, the most important ones first."""
    cheapest = sorted((KINDS | FORM_KINDS).values(), key=lambda kind: ("logistic", FORMS, "lasso").index(kind.family))
    names = [kind.name for kind in cheapest if kind.name not in (*OUT, *FIRST, *LAST)]
    order = [*FIRST, *names, *LAST]
    whole = [(name, draw) for name in FIRST[:3] for draw in CHUNKS]
    promise = [(name, draw) for name in order for draw in ("pilot", "held out")]
    return list(dict.fromkeys([*whole, *promise, *((name, "fresh") for name in order)]))


def run(name: str, draw: str, table: Table, until: float) -> None:
    """The chunks of one draw that are missing, for all models that have something to show in it."""
    (kind,) = chosen([name])
    held = table.setdefault(name, {})
    for model in models_for(kind):
        held.setdefault(model, {})
    most: dict[str, int] = {}
    for model, of in held.items():
        limit = MOST if draw == "pilot" else within_reach(counted(of, "pilot"))
        if limit is not None:
            most[model] = limit
    optimizers = {model: (optimizer_of(model), limit) for model, limit in most.items()}
    done = {model: held[model].get(draw, {}).get("chunks", 0) for model in most}
    for index in range(min(done.values(), default=CHUNKS[draw]), CHUNKS[draw]):
        if time.monotonic() > until:
            return
        missing = {model: optimizers[model] for model in most if done[model] <= index}
        for model, found in chunk(missing, kind, draw, index, CHUNK).items():
            total = counted(held[model], draw) + found
            held[model][draw] = {"chunks": index + 1, "counts": " ".join(f"{k}:{n}" for k, n in sorted(total.items()))}
        if index % 10 == 9 or index + 1 == CHUNKS[draw]:
            written(table)


def counted(of: dict[str, Any], draw: str) -> Counts:
    """Gradients and problems, k:n k:n ..., -1 for those that did not reach the level."""
    pairs = (pair.split(":") for pair in of.get(draw, {}).get("counts", "").split())
    return Counter({int(k): int(n) for k, n in pairs})


def promises(table: Table) -> list[tuple[str, Promise]]:
    """Of each model, as far as its problems have been counted."""
    found = []
    for kind, models in table.items():
        for model, of in models.items():
            pilot, held = counted(of, "pilot"), counted(of, "held out")
            ready = pilot.total() == CHUNKS["pilot"] * CHUNK
            if ready and (held.total() == CHUNKS["held out"] * CHUNK or within_reach(pilot) is None):
                found.append((model, made(kind, pilot, held, counted(of, "fresh"))))
    return found


def written(table: Table) -> None:
    made = {f"{model} on {one.kind}": one for model, one in promises(table)}
    rows = {
        name: {
            "gradients": one.gradients,
            "share at least": percent(one.share),
            "held out": one.instances,
            "of these reached": one.reached,
            "fresh": one.fresh,
            "of these reached it": one.fresh_reached,
        }
        for name, one in sorted(made.items())
        if one.instances
    }
    nothing = {
        name: {"pilot": one.pilot, "of these reached": one.pilot_reached}
        for name, one in sorted(made.items())
        if not one.instances
    }
    checked = {name: one for name, one in made.items() if one.fresh}
    kinds = {one.kind for one in made.values() if one.instances}
    numbers = {
        "problems of a chunk": CHUNK,
        "promises": len(rows),
        "checked on fresh problems": len(checked),
        "not kept": sum(not one.kept for one in checked.values()),
        "not measured": ", ".join(sorted((KINDS.keys() | FORM_KINDS.keys()) - kinds)),
    }
    write_record("promises", {**numbers, "table": rows, "nothing": nothing, "counts": table})


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--cards", action="store_true", help="only write what the record says on the cards")
    options = parser.parse_args()
    path = RECORDS / "promises.json"
    table: Table = json.loads(path.read_text())["counts"] if path.exists() else {}
    if options.cards:
        for model, promise in promises(table):
            on_card(model, promise)
        return
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    until = time.monotonic() + 60 * options.minutes
    for name, draw in jobs():
        if time.monotonic() > until:
            break
        began = time.monotonic()
        try:
            run(name, draw, table, until)
        except DataError as error:
            print(f"{name}: {error}", flush=True)
            continue
        print(f"{name}, {draw}: {time.monotonic() - began:.0f} s", flush=True)
        for model, promise in promises(table):
            if promise.kind == name:
                print(f"  {model}: {promise}", flush=True)


if __name__ == "__main__":
    main()
