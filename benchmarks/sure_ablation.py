"""What each part of Sure's training brings: one thing changed at a time, several seeds, the same test problems.

    python benchmarks/sure_ablation.py [--batches 300] [--seeds 3] [--size 20 32] [NAME ...]

For each variant and seed: the geometric mean, over the test problems, of restarted FISTA's iterations to 1e-6 over its
own, and how many of them it does not solve. The test problems are of the mixture, from seeds of their own, and, as
problems that no variant was trained on, the same moved to a start at +1000. The default size is for a CPU (a minute for
each variant); on a GPU take --size 160 256 --batches 5000. Nothing is written unless all variants are run.
"""

import argparse
import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from sureprox.optimizers import FISTA, Optimizer, Sure
from sureprox.solve.solve import iterate
from sureprox.sources import LassoFamily, LassoMixture
from sureprox.training import StreamConfig, train
from sureprox.training.goal import FLOOR, Goal, inner, log_gap, solved_problems
from sureprox.training.stream_config import STREAMS

from _record import write_record

SEED = 77_000_000
TEST = 64  # problems
MOST = 3000  # iterations


def variants(m: int, n: int, config: StreamConfig) -> dict[str, tuple[dict[str, Any], Any, StreamConfig]]:
    """Name: arguments of Sure, family, config."""
    mixture = LassoMixture(m=m, n=n)
    return {
        "as it is": ({}, mixture, config),
        "gradient through x not limited": ({}, mixture, replace(config, flow=1e30)),
        "gradient through the features": ({}, mixture, replace(config, detached=False)),
        "horizon of one segment": ({}, mixture, replace(config, horizon=config.segment)),
        "segments of half the length": ({}, mixture, replace(config, segment=config.segment // 2)),
        "the paper's problems, no mixture": ({}, LassoFamily(m=m, n=n, nonzeros=n // 10), config),
        "conjugate directions": ({"conjugate": True}, mixture, config),
        "twenty units per coordinate": ({"coordinate": 20}, mixture, config),
        "light": ({"coordinate": 0}, mixture, config),
        "light with conjugate directions": ({"coordinate": 0, "conjugate": True}, mixture, config),
    }


@torch.no_grad()
def iterations(optimizer: Optimizer[Any], goal: Goal, x0: Tensor) -> Tensor:
    """First iteration (B,) with a relative gap below 1e-6; `MOST` where there is none."""
    hit = torch.full_like(goal.best, MOST)
    state = optimizer.init(goal.problem, x0, step_size=goal.step_size)
    for after in iterate(goal.problem, optimizer, state, MOST):
        there = log_gap(goal, after.x, inner(goal.problem, after.x)) < math.log(1e-6 + FLOOR)
        hit = torch.where(there & (hit == MOST), float(after.k), hit)
        if after.k % 20 == 0 and bool((hit < MOST).all()):
            break
    return hit


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--batches", type=int, default=300)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--size", type=int, nargs=2, default=(20, 32))
    options = parser.parse_args()
    m, n = options.size
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu":
        torch.set_num_threads(1)
    preset = STREAMS["sure-tiny" if device == "cpu" else "sure-lasso"][1]
    config = replace(preset, batches=options.batches, validate_every=options.batches, checkpoint_every=options.batches)
    family = LassoMixture(m=m, n=n)
    generator = torch.Generator(device).manual_seed(SEED)
    goal = solved_problems(family, TEST, generator, torch.float32)
    starts = family.start(len(goal.best), generator)
    tests = {"mixture": starts, "start + 1000": starts + 1000}
    baseline = {name: iterations(FISTA(restart=True), goal, x0) for name, x0 in tests.items()}
    chosen = variants(m, n, config)
    table: dict[str, Any] = {}
    for name in options.names or chosen:
        arguments, problems, how = chosen[name]
        rows = []
        for seed in range(options.seeds):
            torch.manual_seed(seed)
            optimizer = Sure(**arguments)
            result = train(optimizer, problems, replace(how, seed=seed), device=device)
            row: dict[str, Any] = {"seed": seed, "validation": result.best_validation, "failed": result.failures}
            for test, x0 in tests.items():
                ours = iterations(optimizer, goal, x0)
                row[test] = {
                    "speedup": round(float(torch.log(baseline[test] / ours).mean().exp()), 3),
                    "unsolved": int((ours == MOST).sum()),
                }
            rows.append(row)
        table[name] = rows
        print(name, rows, flush=True)
    if not options.names:
        about = {"size": [m, n], "batches": options.batches, "instances": len(goal.best), "most": MOST}
        print(write_record("sure_ablation", about | {"variants": table}))


if __name__ == "__main__":
    main()
