"""Seconds of a training batch (setting 7: LASSO 250 x 500, batch 128, 100 iterations): plain and fast path, one run.

Also: do both paths compute the same, what does a batch need in memory, and how far is the floor. Needs a GPU.

    python benchmarks/training_speed.py
"""

import copy
import statistics
import time

import torch

from sureprox.kernels import Compiled, can_fuse, fused
from sureprox.optimizers import GoMathL2O
from sureprox.training import preset
from sureprox.training.captured import CapturedSegments
from sureprox.training.memory import predicted_peak_bytes
from sureprox.training.meta import MetaAdam
from sureprox.training.segment import PlainSegments, meta_gradients, validation_loss

from _record import write_record

RELEASED_SECONDS_PER_BATCH = 3.35  # the authors' code, same GPU model, as shipped (measured once)


def main() -> None:
    recipe = preset("lasso-7")
    config, family = recipe.training, recipe.family
    weights = config.loss.weights(config.segment)
    device = torch.device("cuda")
    torch.manual_seed(0)
    initial = GoMathL2O().to(device)
    numbers: dict[str, object] = {"released_seconds_per_batch": RELEASED_SECONDS_PER_BATCH}

    def timed(make: object, count: int) -> dict[str, float]:
        optimizer = copy.deepcopy(initial)
        meta = MetaAdam(list(optimizer.parameters()), config.clip)
        meta.rate.fill_(config.learning_rate)
        segments = make(optimizer, meta, weights)  # type: ignore[operator]
        generator = torch.Generator(device).manual_seed(1)

        def batch() -> float:
            torch.cuda.synchronize()
            began = time.perf_counter()
            problem = family.sample(config.batch, generator)
            segments.run(
                segments.begin(problem, family.start(config.batch, generator), generator=generator), 5
            ).tolist()
            return time.perf_counter() - began

        first = batch()
        batch()
        torch.cuda.reset_peak_memory_stats()
        rounds = [batch() for _ in range(count)]
        return {
            "first_batch_seconds": first,
            "seconds_per_batch": statistics.median(rounds),
            "fastest": min(rounds),
            "peak_bytes": torch.cuda.max_memory_allocated(),  # without what a captured graph keeps for itself
            "reserved_bytes": torch.cuda.memory_reserved(),
        }

    numbers["plain"] = timed(PlainSegments, 3)
    numbers["graph"] = timed(CapturedSegments, 20)
    numbers["predicted_peak_bytes_plain"] = predicted_peak_bytes(GoMathL2O(), family, config)
    for name in ("plain", "graph"):
        print(name, numbers[name], flush=True)

    # the same numbers on the same seeds
    for dtype in (torch.float32, torch.float64):
        optimizer = copy.deepcopy(initial).to(dtype)
        generator = torch.Generator(device).manual_seed(2)
        problem = family.sample(config.batch, generator, dtype)
        state = optimizer.init(problem, family.start(config.batch, generator, dtype))
        parameters = list(optimizer.parameters())
        _, plain, _ = meta_gradients(problem, optimizer, state, weights, parameters)
        quick, leaves = optimizer, parameters
        if can_fuse(optimizer, device, dtype):
            quick, flat = fused(optimizer)
            leaves = [flat]
        _, fast, _ = meta_gradients(problem, Compiled(quick), state, weights, leaves)
        a, b = (torch.cat([g.reshape(-1) for g in gradients]) for gradients in (plain, fast))
        numbers[f"meta_gradient_relative_difference_{dtype}".replace("torch.", "")] = float((a - b).norm() / a.norm())
    losses = {}
    for name, make in (("plain", PlainSegments), ("graph", CapturedSegments)):
        optimizer = copy.deepcopy(initial)
        meta = MetaAdam(list(optimizer.parameters()), config.clip)
        meta.rate.fill_(config.learning_rate)
        segments = make(optimizer, meta, weights)
        generator = torch.Generator(device).manual_seed(3)
        for _ in range(20):
            problem = family.sample(config.batch, generator)
            segments.run(segments.begin(problem, family.start(config.batch, generator), generator=generator), 5)
        generator = torch.Generator(device).manual_seed(4)
        problem = family.sample(config.batch, generator)
        state = optimizer.init(problem, family.start(config.batch, generator))
        losses[name] = float(validation_loss(problem, optimizer, state, config.length)[0])
    numbers["validation_loss_after_20_batches"] = losses
    numbers["validation_relative_difference"] = abs(losses["plain"] - losses["graph"]) / losses["plain"]

    # the floor: 4 reads of A per iteration at the copy bandwidth of this run
    block = torch.empty(2**31 // 4, device=device)
    target = torch.empty_like(block)
    target.copy_(block)
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(10):
        target.copy_(block)
    torch.cuda.synchronize()
    bandwidth = 10 * 2 * block.numel() * 4 / (time.perf_counter() - began)
    floor = 4 * config.length * config.batch * family.m * family.n * 4 / bandwidth
    graph = numbers["graph"]["seconds_per_batch"]  # type: ignore[index]
    numbers |= {
        "copy_bytes_per_second": bandwidth,
        "floor_seconds_per_batch": floor,
        "graph_over_floor": graph / floor,
        "released_over_graph": RELEASED_SECONDS_PER_BATCH / graph,
        "graph_seconds_for_1500_batches": 1500 * graph,
    }
    print(numbers)
    print(write_record("training_speed", numbers))


if __name__ == "__main__":
    main()
