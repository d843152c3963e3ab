"""Microseconds of each CUDA kernel of a solve, and bytes per second, against the speed of a copy in the same run.

    python benchmarks/kernel_speed.py [--batches 1024] [--m 250] [--n 500]

Each kernel is launched many times within one CUDA graph, on inputs that together exceed the cache, so that neither the
time of a launch from Python nor a warm cache is measured. Bytes: every input read once, every output written once.
"""

import argparse
import statistics
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from sureprox.evaluation.speed import copy_bandwidth
from sureprox.kernels.certified.gpu import judge, track_steps
from sureprox.kernels.network.gpu import coordinate_network, fused
from sureprox.kernels.products.gpu_extrapolated import extrapolated
from sureprox.kernels.products.gpu_gradient import normal_map
from sureprox.kernels.sure.gpu import COORDINATE, INSTANCE, NUMBERS, VECTORS, fused_sure, sure_step
from sureprox.optimizers import load

CACHE = 200_000_000  # bytes of inputs that certainly exceed it
LAUNCHES = 24
Call = tuple[Callable[..., object], tuple[object, ...]]


def tensors(value: object) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    return [t for part in value for t in tensors(part)] if isinstance(value, list | tuple) else []


def size(value: object) -> int:
    return sum(t.numel() * t.element_size() for t in tensors(value))


def seconds(calls: Sequence[Call]) -> float:
    """Of one call, the calls taken in turn."""
    for function, arguments in calls:
        function(*arguments)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for k in range(LAUNCHES):
            function, arguments = calls[k % len(calls)]
            function(*arguments)
    times = []
    for _ in range(8):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) / 1e3 / LAUNCHES)
    return statistics.median(times[2:])


def kernels(batch: int, m: int, n: int, generator: torch.Generator) -> dict[str, Callable[[], Call]]:
    def some(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, device="cuda")

    def ones(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator, device="cuda") + 1

    def count() -> Tensor:
        return torch.zeros(batch, dtype=torch.int64, device="cuda")

    A = some(batch, m, n)

    def sure(name: str) -> Call:
        optimizer = fused_sure(load(name, "cuda"))
        width = optimizer.network.coordinate
        memory = [some(batch, width, n) for _ in COORDINATE] if width else []
        numbers = [*(ones(batch) for _ in NUMBERS[:-1]), count().float()]  # the last one: not the first step
        old = [ones(batch), *(some(batch, n) for _ in VECTORS), *numbers, *(some(batch, 32) for _ in INSTANCE), *memory]
        return sure_step, (some(batch, n), ones(batch), old, optimizer.packed)

    def decisions() -> Call:
        wide, tall = [(batch, k, n) for k in (1, 2, 3)], [(batch, k, m) for k in (1, 2, 3)]
        moved = [some(*wide[2]), some(*tall[2]), some(*tall[2]), some(*wide[2]), ones(batch, 2), ones(batch, 2)]
        base = [some(batch, n), some(batch, m), some(*wide[1]), some(*tall[1]), some(*wide[2])]
        track = [some(*wide[1]), some(*tall[1]), ones(batch, 2)]
        best = [some(batch, n), some(batch, m), ones(batch), ones(batch), ones(batch, 5), ones(batch)]
        return judge, ([*moved, *base, *track, *best], [count(), count(), count()])

    def steps() -> Call:
        given = [some(batch, 2, n), some(batch, 3, n), some(batch, 2, n), some(batch, 2, m)]
        return track_steps, ([some(batch, n), some(batch, m)], [*given, ones(batch, 2), ones(batch), ones(batch)])

    def go() -> Call:
        network = fused(load("go-math-l2o/lasso", "cuda"))[0].network
        rows, shape = batch * n, network.shape
        memory = some(2, rows, 20), some(2, rows, 20)
        return coordinate_network, (
            some(rows, 3),
            *memory,
            network.flat.detach(),
            shape.heads,
            shape.inner,
            shape.offset,
        )

    return {
        "normal_map": lambda: (normal_map, (A, some(batch, n), some(batch, m), False)),
        "extrapolated, 3 points": lambda: (
            extrapolated,
            (A, some(batch, 3, n), some(batch, 3, m), some(batch, 3), some(batch, m)),
        ),
        "sure_step": lambda: sure("sure/lasso"),
        "sure_step, light": lambda: sure("sure/lasso-light"),
        "tracks": steps,
        "judge": decisions,
        "network of go-math-l2o": go,
    }


@torch.no_grad()
def main() -> None:
    parser = argparse.ArgumentParser(description="Microseconds of each CUDA kernel of a solve.")
    parser.add_argument("--batches", default="1024")
    parser.add_argument("--m", type=int, default=250)
    parser.add_argument("--n", type=int, default=500)
    options = parser.parse_args()
    bandwidth = copy_bandwidth(torch.device("cuda"))
    print(f"copy: {bandwidth / 1e12:.2f} TB/s")
    for batch in (int(part) for part in options.batches.split(",")):
        generator = torch.Generator("cuda").manual_seed(batch)
        for name, make in kernels(batch, options.m, options.n, generator).items():
            call = make()
            bytes_moved = size(call[1]) + size(call[0](*call[1]))
            copies = min(LAUNCHES, max(1, CACHE // size(call[1]) + 1))
            taken = seconds([call, *(make() for _ in range(copies - 1))])
            print(
                f"{batch:6d} {name:24s} {1e6 * taken:8.2f} us  {bytes_moved / 1e6:8.2f} MB  "
                f"{bytes_moved / taken / 1e12:5.2f} TB/s  {bytes_moved / bandwidth / taken:5.0%} of a copy's speed",
                flush=True,
            )


if __name__ == "__main__":
    main()
