"""Problems that tests and the processes they start can make again from a number."""

import functools
import time
from pathlib import Path

import torch

import sureprox as sp

M, N = 12, 24
LAM = 0.5  # solved in some forty iterations
RESTARTED = sp.optimizers.FISTA(restart=True)


def problems(seed: int, count: int, *, own: bool = False, dtype: torch.dtype = torch.float64) -> sp.Problem:
    generator = torch.Generator().manual_seed(seed if own else 0)
    A = torch.randn(*((count, M, N) if own else (M, N)), generator=generator, dtype=dtype)
    A = A / torch.linalg.vector_norm(A, dim=-2, keepdim=True)
    generator.manual_seed(seed + 1)
    return sp.lasso(A, torch.randn(count, M, generator=generator, dtype=dtype), LAM)


def slow_problems(seed: int, count: int, log: Path, pause: float) -> sp.Problem:
    """The same, after a pause, with a line in `log` for each call: who was solved how often.

    From the number in a file `held` beside it on, whoever makes problems is held, for ten minutes at most.
    """
    with log.open("a") as file:
        file.write(f"{seed}\n")
    time.sleep(pause)
    held = log.with_name("held")
    if held.exists() and seed >= int(held.read_text()):
        time.sleep(600)
    return problems(seed, count)


def slow_source(shards: int, count: int, log: Path, pause: float) -> list[functools.partial[sp.Problem]]:
    return [functools.partial(slow_problems, seed, count, log, pause) for seed in range(shards)]
