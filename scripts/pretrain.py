"""Train the optimizers that ship with the package, each by its preset.

    python scripts/pretrain.py --out runs                  # all of them
    python scripts/pretrain.py --out runs go-math-l2o/lasso
    python scripts/pretrain.py --out runs --install        # then copy weights, cards and logs into the repository

Each run is `sureprox train --preset ... --optimizer ...` ; an interrupted one is resumed.
"""

import argparse
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from sureprox.base.names import PRETRAINED
from sureprox.optimizers import LearnedOptimizer, read_card, save
from sureprox.training import Recipe, paper_settings, preset, train
from sureprox.training.events import Event, Listener

LOGS = Path(__file__).parent.parent / "records" / "training"

LASSO = (
    "Mixture: normal entries, AR(1) columns and rows, a rank-one factor; up to 512 rows for 256 columns; 2 to 30 % "
    "nonzeros; half with noise; lam from 0.003 to 0.2 of its largest value; starts zero, normal, moved by up to 100 "
    "(LassoMixture). "
)
LOGISTIC = (
    "Mixture: normal entries, AR(1) columns, a rank-one factor; 32 to 768 rows for 64 columns; half with noise, a "
    "quarter with rare or frequent ones; lam from 0.01 to 0.6 of its largest value; starts zero, normal, moved by "
    "up to 20 (LogisticMixture). "
)
NOTES = {  # what a card says of the training and of where the weights are weakest (records/battery/seeds-*)
    "sure/lasso": LASSO
    + "Weakest on tall, well-conditioned problems (2000 x 500: 1.6 times fewer iterations than restarted FISTA), "
    "nearly dense solutions and column norms over two decades (2.4 times).",
    "sure/lasso-light": LASSO
    + "Weakest on tall, well-conditioned problems (2000 x 500: 1.6 times fewer iterations than restarted FISTA); far "
    "starts take twice the iterations of sure/lasso.",
    "sure/logistic": LOGISTIC
    + "Weakest on easy problems, which restarted FISTA solves in about ten iterations: 1.7 times fewer.",
    "sure/general": "Mixture: squares, logistic and Huber losses with l1, l2 and bounds in all combinations; normal "
    "entries, AR(1) columns and rows, a rank-one factor, spectra and column norms over up to three decades; 16 to 240 "
    "rows for 80 columns; 2 to 100 % nonzeros; starts zero, normal, moved by up to 100 (GeneralMixture). One seed, "
    "on one CPU core. For every separable penalty; groups are refused.",
    "sure/logistic-light": LOGISTIC + "Weakest on imbalanced labels: 1.3 times fewer iterations than restarted FISTA.",
}


def models() -> dict[str, Recipe]:
    """Name of each pretrained model and how it is trained."""
    kinds = ("go-math-l2o", "l2o-pa", "l2o-dm", "rnnprop")
    chosen = {f"{kind}/lasso": preset("lasso-7", kind) for kind in kinds}
    chosen |= {f"{kind}/logistic": preset("logistic", kind) for kind in kinds}
    chosen["ada-lista/lasso"] = preset("lasso-7", "ada-lista")
    for variant in ("std", "lh"):
        chosen[f"go-math-l2o/lasso-{variant}"] = preset("lasso-7", gradient_map=variant)
    for label, shrink in (("q-sqrt", "1/sqrtL"), ("q-once", "1/L"), ("q-twice", "1/L^2")):
        chosen[f"go-math-l2o/lasso-{label}"] = preset("lasso-7", q_shrink=shrink)
    chosen |= paper_settings()
    for family in ("lasso", "logistic"):
        chosen[f"sure/{family}"] = preset(f"sure-{family}", conjugate=family == "logistic")
        chosen[f"sure/{family}-light"] = preset(f"sure-{family}", coordinate=0, conjugate=True)
    chosen["sure/general"] = preset("sure-general")
    return chosen


def show(event: Event) -> None:
    if event["event"] in ("note", "end") or (event["event"] == "validation" and event["batch"] % 500 == 0):
        print("   ", {key: value for key, value in event.items() if key != "recipe"}, flush=True)


def snapshots(optimizer: LearnedOptimizer[Any], run: Path) -> Listener:
    """Keeps the weights at every validation, in RUN/snapshots/BATCH.pt."""

    def keep(event: Event) -> None:
        if event["event"] == "validation":
            path = run / "snapshots" / f"{event['batch']:05d}.pt"
            path.parent.mkdir(parents=True, exist_ok=True)
            torch.save({name: value.detach().cpu() for name, value in optimizer.named_parameters()}, path)

    return keep


def require_fast(event: Event) -> None:
    if event["event"] == "note" and "plain" in event["text"]:
        raise SystemExit("the fast path does not work here")


def install(run: Path, name: str, log: str = "log.jsonl") -> None:
    """Copy the weights and the card into the package, the log into records/."""
    for suffix in (".safetensors", ".json"):
        target = (PRETRAINED / name).with_name(Path(name).name + suffix)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(run / f"model{suffix}", target)
    if name in NOTES:
        card = json.loads(target.read_text())
        target.write_text(json.dumps(card | {"notes": NOTES[name]}, indent=2, sort_keys=True) + "\n")
    kept = LOGS / f"{name}{Path(log).suffix}"
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(thinned((run / log).read_text()))


def thinned(log: str) -> str:
    """Of a long log every 20th batch, and everything else."""
    lines = log.splitlines(keepends=True)
    if len(lines) < 2000:
        return log
    events = [json.loads(line) for line in lines]
    kept = [event["event"] != "batch" or event["batch"] % 20 == 0 for event in events]
    return "".join(line for line, keep in zip(lines, kept, strict=True) if keep)


def save_last(recipe: Recipe, run: Path) -> None:
    """Write the weights after the last batch of a finished run over its model."""
    found = torch.load(run / "checkpoint.pt", weights_only=True)
    card = read_card(run / "model")
    optimizer = recipe.build()
    optimizer.take(found["weights"])
    about = {name: getattr(card, name) for name in ("family", "training", "seed", "date", "version")}
    metrics = {"batches": found["progress"]["batch"], "seconds": round(found["progress"]["seconds"], 1)}
    save(optimizer, run / "model", **about, metrics=metrics, notes="weights after the last batch of the run")


def main() -> None:
    parser = argparse.ArgumentParser(description="Train the optimizers that ship with the package.")
    parser.add_argument("names", nargs="*", help="which ones; all by default")
    parser.add_argument("--out", type=Path, required=True, help="directory of the runs")
    parser.add_argument("--install", action="store_true", help="copy finished runs into the repository")
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--seed", type=int, default=0, help="of the initial weights and of the problems")
    parser.add_argument("--require-fast", action="store_true", help="stop rather than go on with plain PyTorch")
    parser.add_argument("--last", action="store_true", help="take the last weights, not those best in validation")
    parser.add_argument("--snapshots", action="store_true", help="keep the weights at every validation too")
    options = parser.parse_args()
    known = models()
    for name in options.names or known:
        recipe, run = known[name], options.out / name
        recipe = replace(recipe, training=replace(recipe.training, seed=options.seed))
        if not (run / "model.json").exists():
            print(name, flush=True)
            torch.manual_seed(recipe.training.seed)
            optimizer = recipe.build()
            listeners: list[Listener] = [show]
            if options.require_fast:
                listeners.append(require_fast)
            if options.snapshots:
                listeners.append(snapshots(optimizer, run))
            result = train(
                optimizer,
                recipe.family,
                recipe.training,
                run,
                backend=options.backend,
                listeners=listeners,
            )
            print("   ", result, flush=True)
            if not result.completed:  # interrupted: the next call goes on from here
                break
        if options.last:
            save_last(recipe, run)
        if options.install:
            install(run, name)


if __name__ == "__main__":
    main()
