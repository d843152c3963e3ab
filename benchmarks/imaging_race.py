"""Deblurring and TV denoising by restarted FISTA, PANOC and, for TV, scikit-image's Chambolle, to the same gap.

python benchmarks/imaging_race.py       (pip install '.[gallery]': scikit-image)

The tasks are those of `imaging.py`: gradients, processor seconds and PSNR at a gap of 1e-4 F. Chambolle has
no gap of its own: it gets the least multiple of 50 iterations with F(x) - (a lower bound of F*) <= 1e-4 F(x), the bound
being that of a solve to a gap of 1e-5 F. Its steps are gradients of the dual problem too.
"""

import time
from collections.abc import Iterator
from importlib.util import find_spec

import torch
from torch import Tensor

import sureprox as sp
from sureprox.problems.operators import Difference

from _record import write_record
from imaging import GAP, Task, deblurring, decibels, denoising

METHODS = {"restarted FISTA": sp.optimizers.FISTA(restart=True), "PANOC": sp.optimizers.PANOC()}
BLOCK, MOST = 50, 5000  # iterations of Chambolle's method
CLOSER = 0.1  # of the gap: how well the lower bound is known
Row = dict[str, float]


def deblur_race(size: int) -> Iterator[tuple[str, Row]]:
    task = deblurring(size)
    for name, optimizer in METHODS.items():
        problem = sp.lasso(task.operator, task.given.reshape(1, -1), task.lam)
        began = time.process_time()
        solution = sp.solve(problem, optimizer, tol=GAP, max_iter=20_000, certify=False)
        seconds = time.process_time() - began
        image = task.image(solution.x)
        yield name, row(task, image, int(solution.iterations), seconds, float(solution.gap / solution.objective))


def denoise_race(size: int) -> Iterator[tuple[str, Row]]:
    task = denoising(size)
    for name, optimizer in METHODS.items():
        count = Counted()
        began = time.process_time()
        found = sp.tv_denoise(
            task.given, task.lam, optimizer=optimizer, tol=GAP, max_iter=20_000, certify=False, callback=count.seen
        )
        seconds = time.process_time() - began
        yield name, row(task, found.x, count.total, seconds, float(found.gap / found.objective))
    if find_spec("skimage") is None:
        print("scikit-image is not installed: Chambolle's method is left out (pip install scikit-image)")
        return
    yield "Chambolle, scikit-image", by_chambolle(task)


class Counted:
    """Iterations of all the solves of a call, which `tv_denoise` may make several of."""

    def __init__(self) -> None:
        self.total = self.last = 0

    def seen(self, progress: sp.Progress) -> None:
        self.total += progress.k - (self.last if progress.k > self.last else 0)
        self.last = progress.k


def by_chambolle(task: Task) -> Row:
    from skimage.restoration import denoise_tv_chambolle

    known = sp.tv_denoise(task.given, task.lam, optimizer=METHODS["restarted FISTA"], tol=CLOSER * GAP, certify=False)
    least = float(known.objective - known.gap)
    for count in range(BLOCK, MOST + 1, BLOCK):
        began = time.process_time()
        x = torch.from_numpy(denoise_tv_chambolle(task.given.numpy(), weight=task.lam, eps=0, max_num_iter=count))
        seconds = time.process_time() - began
        value = objective(x, task.given, task.lam)
        if value - least <= GAP * value:
            break
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
    return {"gradients": gradients, "processor seconds": round(seconds, 2), "gap / F": gap, "PSNR, dB": psnr}


def main() -> None:
    torch.set_num_threads(1)
    races = {"deblurring, 256 x 256": deblur_race(256), "TV, 512 x 512": denoise_race(512)}
    rows = {f"{race}: {name}": found for race, pairs in races.items() for name, found in pairs}
    for name, found in rows.items():
        print(name, found)
    write_record("imaging_race", {"protocol": "one run, each method alone, float64", "answers": rows})


if __name__ == "__main__":
    main()
