"""A last stage of training for an optimizer that has learned LASSO: for the iterations in which a user stops.

    python scripts/refine.py go-math-l2o/lasso --name go-math-l2o/lasso-refined --out runs/refined     # minutes, CPU
    python scripts/refine.py ... --install            # then copy weights, card and log into the repository

The paper trains on the mean of F over 100 iterations, of which the last digits are no part. Here the loss is the mean
over k = 20, 24, ..., 36 of log(mean_i (F(x_k) - F*) / F*), i the problems of a batch, F* from duality gaps. Problems
and starts are those of the training family, redrawn: no start is moved, no problem is of another kind. The weights
after the last step are taken.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import sureprox as sp
from pretrain import install
from sureprox.optimizers import LearnedOptimizer, read_card, save
from sureprox.problems import Problem
from sureprox.sources import Family
from sureprox.training.config import FAMILIES

LOOKED_AT = tuple(range(20, 37, 4))  # iterations
POOL, BATCH = 512, 64  # problems with known F*, and how many of them a step sees
WARM = 10  # steps until the full rate, which then falls linearly to a tenth
SMALLEST = 1e-12  # relative gap that F* is known to
LOG = "steps.log"  # not the log of a training run, which `sureprox report` would draw


def loss_of(optimizer: LearnedOptimizer[Any], exact: Problem, x0: Tensor, best: Tensor, generator: Any) -> Tensor:
    """The iterations in float32, F in float64."""
    problem = exact.to(dtype=torch.float32)
    state = optimizer.init(problem, x0, generator=generator)
    terms = []
    for after in sp.iterate(problem, optimizer, state, LOOKED_AT[-1]):
        if after.k in LOOKED_AT:
            gap = (exact.objective(after.x.double()) - best) / best
            terms.append(gap.clamp(min=SMALLEST).mean().log())
    return torch.stack(terms).mean()


def refined(optimizer: LearnedOptimizer[Any], family: Family, steps: int, rate: float, seed: int, log: Path) -> None:
    """Train in place; every step is a line of the log."""
    generator = torch.Generator().manual_seed(seed)
    pool = family.sample(POOL, generator, torch.float64)
    best = sp.reference(pool).objective
    meta = torch.optim.Adam(optimizer.parameters(), lr=rate)
    began = time.perf_counter()
    with log.open("w") as file:
        for step in range(steps):
            now = rate * min(1.0, (step + 1) / WARM) * (1 - 0.9 * step / steps)
            meta.param_groups[0]["lr"] = now
            chosen = torch.randperm(POOL, generator=generator)[:BATCH]
            x0 = family.start(BATCH, generator, torch.float32)
            loss = loss_of(optimizer, pool.select(chosen), x0, best[chosen], generator)
            meta.zero_grad()
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(optimizer.parameters(), 1.0, error_if_nonfinite=True)
            meta.step()
            seconds = round(time.perf_counter() - began, 1)
            line = {"event": "step", "step": step + 1, "loss": loss.item(), "gradient": float(norm), "rate": now}
            file.write(json.dumps(line | {"seconds": seconds}) + "\n")
            file.flush()
            if step % 10 == 9:
                print(f"step {step + 1} of {steps}: loss {loss.item():.3f}, {seconds:.0f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="A last stage of training, for the iterations in which a user stops.")
    parser.add_argument("base", help="the optimizer to begin with, by name or path")
    parser.add_argument("--name", required=True, help="what the new one is called")
    parser.add_argument("--out", type=Path, required=True, help="directory of the run")
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--rate", type=float, default=3e-4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--install", action="store_true", help="copy the finished run into the repository")
    options = parser.parse_args()
    run = options.out / options.name
    if not (run / "model.json").exists():
        run.mkdir(parents=True, exist_ok=True)
        optimizer, card = sp.load(options.base), read_card(options.base)
        family = FAMILIES[card.family["name"]](**{k: v for k, v in card.family.items() if k != "name"})
        refined(optimizer, family, options.steps, options.rate, options.seed, run / LOG)
        last = (
            f"then {options.steps} steps of {BATCH} problems on the logarithm of the mean relative gap at iterations "
            f"{LOOKED_AT[0]} to {LOOKED_AT[-1]}, rate {options.rate:g}, seed {options.seed}, problems and starts as "
            "before, on a CPU (scripts/refine.py)"
        )
        notes = f"{options.base} ({card.notes}), {last}"
        about = {name: getattr(card, name) for name in ("family", "training", "seed")}
        metrics = {name: value for name, value in card.metrics.items() if name == "batches"}
        save(optimizer, run / "model", **about, metrics=metrics, notes=notes)
    if options.install:
        install(run, options.name, LOG)


if __name__ == "__main__":
    main()
