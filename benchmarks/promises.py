"""Promises of the shipped Sure models on kinds of the battery, by `sureprox.evaluation.promise`, and fresh draws.

    python benchmarks/promises.py [--instances 2000] [--fresh 2000] [--pilot 200] [--cards]

--cards writes them on the cards of the models.
"""

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from sureprox.base.names import PRETRAINED
from sureprox.evaluation.battery import chosen
from sureprox.evaluation.promise import kept, promised

from _record import RECORDS, write_record

CASES = (
    ("sure/lasso", "lasso-64x128"),
    ("sure/lasso-light", "lasso-64x128"),
    ("sure/logistic", "logistic"),
    ("sure/logistic-light", "logistic"),
    ("sure/lasso", "lasso"),
    ("sure/lasso-light", "lasso"),
)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--instances", type=int, default=2000)
    parser.add_argument("--fresh", type=int, default=2000)
    parser.add_argument("--pilot", type=int, default=200)
    parser.add_argument("--cards", action="store_true", help="only write what the record says on the cards")
    options = parser.parse_args()
    if options.cards:
        on_cards(json.loads((RECORDS / "promises.json").read_text())["promises"])
        return
    torch.set_num_threads(1)
    made: list[dict[str, Any]] = []
    for model, name in CASES:
        (kind,) = chosen([name])
        promise = promised(model, kind, options.pilot, options.instances)
        count = kept(model, kind, promise, options.fresh)
        holds = count >= promise.share * options.fresh
        made.append({"model": model, "text": str(promise), **asdict(promise)})
        made[-1] |= {"fresh": options.fresh, "fresh reached": count, "holds": holds}
        print(model, promise, f"fresh: {count} of {options.fresh}", "holds" if holds else "does not hold", flush=True)
        table = {
            f"{one['model']} on {one['kind']}": {
                "gradients": one["gradients"],
                "share at least": one["share"],
                "held out": one["instances"],
                "fresh": one["fresh"],
                "of these reached": one["fresh reached"],
            }
            for one in made
        }
        write_record("promises", {"pilot": options.pilot, "table": table, "promises": made})


def on_cards(promises: list[dict[str, Any]]) -> None:
    for model in {one["model"] for one in promises}:
        path = Path(PRETRAINED / f"{model}.json")
        card = json.loads(path.read_text())
        card["promises"] = [{k: v for k, v in one.items() if k != "model"} for one in promises if one["model"] == model]
        path.write_text(json.dumps(card, indent=2, sort_keys=True) + "\n")
        print(path)


if __name__ == "__main__":
    main()
