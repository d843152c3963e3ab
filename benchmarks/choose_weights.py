"""Choose among trainings of one optimizer, and among the weights along each, by how far they carry.

    python scripts/pretrain.py --out runs/seed0 --seed 0 --snapshots go-math-l2o/lasso     # and other seeds
    python benchmarks/choose_weights.py runs/seed*/go-math-l2o/lasso --into runs/chosen/go-math-l2o/lasso

Each candidate is judged on problems that are used for nothing else, by its iterations to a mean relative gap of 1e-6
from starts moved by s = 0, +-10, +-100, each in units of what is hoped for (GOALS); the worst of the five counts.
"""

import argparse
import shutil
from pathlib import Path

import torch

import sureprox as sp
from sureprox.optimizers import read_card, save
from sureprox.training.config import FAMILIES

from pretrained_quality import MOST, counts

GOALS = {0: 36, 10: 75, -10: 75, 100: 270, -100: 270}
SEED = 4242
LEVEL = 1  # of pretrained_quality.LEVELS: 1e-6


def main() -> None:
    parser = argparse.ArgumentParser(description="Choose among trainings by how far their weights carry.")
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--into", type=Path, required=True, help="where the chosen model, card and log are written")
    parser.add_argument("--instances", type=int, default=256)
    parser.add_argument("--from-batch", type=int, default=500, help="earlier snapshots are not looked at")
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    card = read_card(options.runs[0] / "model")
    family = FAMILIES[card.family["name"]](**{k: v for k, v in card.family.items() if k != "name"})
    generator = torch.Generator(device).manual_seed(SEED)
    problem = family.sample(options.instances, generator, torch.float64)
    x0 = family.start(options.instances, generator, torch.float64)
    best = sp.reference(problem).objective
    chosen: tuple[float, Path, str, dict[int, int | None]] | None = None
    for run in options.runs:
        optimizer = sp.load(run / "model", device)
        paths = [p for p in sorted((run / "snapshots").glob("*.pt")) if int(p.stem) >= options.from_batch]
        for path in paths:
            weights = torch.load(path, weights_only=True)
            optimizer.take({name: value.to(device) for name, value in weights.items()})
            found: dict[int, int | None] = {}
            score = 0.0
            for s, goal in GOALS.items():
                found[s] = counts(problem, optimizer, x0 + s, best)[LEVEL]
                score = max(score, (found[s] or 2 * MOST) / goal)
                if chosen is not None and score >= chosen[0]:
                    break
            if chosen is None or score < chosen[0]:
                chosen = (score, run, path.stem, found)
                print(f"{run} batch {path.stem}: {found}, worst {score:.3f} of its goal", flush=True)
    assert chosen is not None, "no snapshots found"
    score, run, batch, found = chosen
    card = read_card(run / "model")
    optimizer = sp.load(run / "model")
    optimizer.take(torch.load(run / "snapshots" / f"{batch}.pt", weights_only=True))
    options.into.mkdir(parents=True, exist_ok=True)
    about = {name: getattr(card, name) for name in ("family", "training", "seed", "date", "version")}
    metrics = {"batches": int(batch), "iterations_to_1e-6": {f"s={s}": k for s, k in found.items()}}
    notes = (
        f"weights after batch {int(batch)}, chosen among {len(options.runs)} seeds and their snapshots from batch "
        f"{options.from_batch} on by iterations on {options.instances} separate problems (benchmarks/choose_weights.py)"
    )
    save(optimizer, options.into / "model", **about, metrics=metrics, notes=notes)
    shutil.copy(run / "log.jsonl", options.into / "log.jsonl")


if __name__ == "__main__":
    main()
