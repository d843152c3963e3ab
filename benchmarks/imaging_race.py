"""Deblurring and TV denoising by restarted FISTA, PANOC and, for TV, scikit-image's Chambolle, to the same gap.

python benchmarks/imaging_race.py [--only tv]       (pip install '.[gallery]': scikit-image)

The tasks are those of `imaging.py`: gradients, seconds and PSNR at a gap of 1e-4 F, on one core; seconds are wall-clock
time, the median of three runs for TV. Chambolle's method has no gap of its own: it gets the least number of iterations,
to 2 %, with F(x) - (a lower bound of F*) <= 1e-4 F(x), the bound being that of a solve to a gap of 1e-6 F. Its steps
are gradients of the dual problem too. float32 or float64, whichever is faster, for each.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from importlib.util import find_spec
from statistics import median

import torch
from torch import Tensor

import sureprox as sp
from sureprox.problems.operators import Difference

from _record import write_record
from imaging import GAP, Task, deblurring, decibels, denoising

METHODS = {"restarted FISTA": sp.optimizers.FISTA(restart=True), "PANOC": sp.optimizers.PANOC()}
FEWEST, MOST = 50, 5000  # iterations of Chambolle's method
PRECISE = 0.02  # so precisely the least number is found
CLOSER = 0.01  # of the gap: how well the lower bound is known
RUNS = 3
Row = dict[str, float]


def deblur_race(size: int) -> Iterator[tuple[str, Row]]:
    task = deblurring(size)
    for name, optimizer in METHODS.items():
        problem = sp.lasso(task.operator, task.given.reshape(1, -1), task.lam)
        began = time.perf_counter()
        solution = sp.solve(problem, optimizer, tol=GAP, max_iter=20_000, certify=False)
        seconds = time.perf_counter() - began
        image = task.image(solution.x)
        yield name, row(task, image, int(solution.iterations), seconds, float(solution.gap / solution.objective))


def denoise_race(size: int) -> Iterator[tuple[str, Row]]:
    task = denoising(size)
    yield "sp.tv_denoise", fastest(by_default(task, dtype) for dtype in (torch.float64, torch.float32))
    count = Counted()
    began = time.perf_counter()
    found = sp.tv_denoise(
        task.given, task.lam, optimizer=METHODS["PANOC"], tol=GAP, max_iter=20_000, callback=count.seen
    )
    seconds = time.perf_counter() - began
    yield "PANOC", row(task, found.x, count.total, seconds, float(found.gap / found.objective))
    if find_spec("skimage") is None:
        print("scikit-image is not installed: Chambolle's method is left out (pip install scikit-image)")
        return
    known = sp.tv_denoise(task.given, task.lam, tol=CLOSER * GAP, max_iter=20_000)
    assert known.converged.all()
    least = float(known.objective - known.gap)
    yield (
        "Chambolle, scikit-image",
        fastest(by_chambolle(task, least, dtype) for dtype in (torch.float64, torch.float32)),
    )


def fastest(rows: Iterator[Row]) -> Row:
    return min(rows, key=lambda row: row["seconds"])


def timed(work: Callable[[], Tensor]) -> tuple[Tensor, float]:
    """What it returns, and the median of its seconds."""
    seconds = []
    for _ in range(RUNS):
        began = time.perf_counter()
        found = work()
        seconds.append(time.perf_counter() - began)
    return found, median(seconds)


def by_default(task: Task, dtype: torch.dtype) -> Row:
    given, seen = task.given.to(dtype), []

    def work() -> Tensor:
        seen.append(sp.tv_denoise(given, task.lam, tol=GAP, engine="kernels"))
        return seen[-1].x

    x, seconds = timed(work)
    found = seen[-1]
    return row(task, x.double(), int(found.dual.iterations), seconds, float(found.gap / found.objective))


class Counted:
    """Iterations of all the solves of a call, which `tv_denoise` may make several of."""

    def __init__(self) -> None:
        self.total = self.last = 0

    def seen(self, progress: sp.Progress) -> None:
        self.total += progress.k - (self.last if progress.k > self.last else 0)
        self.last = progress.k


def by_chambolle(task: Task, least: float, dtype: torch.dtype) -> Row:
    from skimage.restoration import denoise_tv_chambolle

    given = task.given.to(dtype).numpy()

    def work(count: int) -> Tensor:
        return torch.from_numpy(denoise_tv_chambolle(given, weight=task.lam, eps=0, max_num_iter=count)).double()

    def enough(count: int) -> bool:
        value = objective(work(count), task.given, task.lam)
        return value - least <= GAP * value

    low, count = 0, FEWEST
    while not enough(count) and count < MOST:
        low, count = count, 2 * count
    while count - low > PRECISE * count:
        middle = (low + count) // 2
        low, count = (low, middle) if enough(middle) else (middle, count)
    x, seconds = timed(lambda: work(count))
    value = objective(x, task.given, task.lam)
    return row(task, x, count, seconds, (value - least) / value)


def objective(x: Tensor, y: Tensor, lam: float) -> float:
    """1/2 |x - y|^2 + lam TV(x), isotropic, with the forward differences of `Difference`."""
    h, w = x.shape
    down, right = Difference((h, w)).forward(x.reshape(1, -1))[0].split([(h - 1) * w, h * (w - 1)])
    squares = torch.zeros_like(x)
    squares[:-1] += down.reshape(h - 1, w).square()
    squares[:, :-1] += right.reshape(h, w - 1).square()
    return float((x - y).square().sum() / 2 + lam * squares.sqrt().sum())


def row(task: Task, image: Tensor, gradients: int, seconds: float, gap: float) -> Row:
    psnr = decibels(image.reshape(task.truth.shape), task.truth)
    return {"gradients": gradients, "seconds": round(seconds, 3), "gap / F": gap, "PSNR, dB": psnr}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", choices=["tv"])
    only = parser.parse_args().only
    torch.set_num_threads(1)
    races = {"TV, 512 x 512": denoise_race(512)}
    if only is None:
        races["deblurring, 256 x 256"] = deblur_race(256)
    rows = {f"{race}: {name}": found for race, pairs in races.items() for name, found in pairs}
    for name, found in rows.items():
        print(name, found)
    tv = "TV, 512 x 512: "
    ratio = rows[tv + "Chambolle, scikit-image"]["seconds"] / rows[tv + "sp.tv_denoise"]["seconds"]
    print("times as fast as Chambolle:", round(ratio, 2))
    record: dict[str, object] = {"protocol": "one process, one core, wall-clock seconds", "answers": rows}
    record["scikit-image"] = version("scikit-image")
    if only is not None:
        record["command"] = f"python benchmarks/imaging_race.py --only {only}"
    write_record("imaging_race", {**record, "times_as_fast_as_chambolle": round(ratio, 2)})


if __name__ == "__main__":
    main()
