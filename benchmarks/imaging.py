"""Deblurring and denoising of photographs without matrices, each to a proved gap of 1e-4; figures of docs/gallery.md.

python benchmarks/imaging.py [--out docs/images]

The record holds seconds of one core, iterations, PSNR in dB, and the largest memory of a process that does nothing
else: before the solve, after its first checks, and at its end.
"""

import argparse
import resource
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path

import matplotlib as mpl
import numpy as np
import torch
from matplotlib import pyplot as plt
from sklearn.datasets import load_sample_image
from torch import Tensor

import sureprox as sp
from sureprox.problems.operators import Compose, Convolution, Haar, Operator
from sureprox.sources.photographs import LUMINANCE

from _record import write_record

ROOT = Path(__file__).parents[1]
GAP = 1e-4  # of the objective
EARLY = 20  # iterations, when the first peak of the memory is read
mpl.use("Agg")


@dataclass
class Memory:
    """Largest memory in MiB: at the start, after `EARLY` iterations, and now."""

    start: float = field(default_factory=lambda: peak())
    early: float | None = None

    def seen(self, progress: sp.Progress) -> None:
        if self.early is None and progress.k >= EARLY:
            self.early = peak()

    def numbers(self) -> dict[str, float]:
        return {"at_start": self.start, "after_20_iterations": self.early or peak(), "at_end": peak()}


def peak() -> float:
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)


@dataclass(frozen=True)
class Restored:
    """Three images (h, w), and what was measured."""

    truth: Tensor
    given: Tensor
    found: Tensor
    numbers: dict[str, object]


@dataclass(frozen=True)
class Task:
    """Two images (h, w), the size of the penalty, and the operator of those that have one."""

    truth: Tensor
    given: Tensor
    lam: float
    noise: float
    operator: Compose | None = None
    synthesis: Operator | None = None

    def image(self, x: Tensor) -> Tensor:
        """Of the coefficients x (1, n)."""
        assert self.synthesis is not None
        return self.synthesis.forward(x).reshape(self.truth.shape)


def deblurring(size: int) -> Task:
    half = size // 2
    truth = flower()[208 - half : 208 + half, 308 - half : 308 + half]
    shape, lam, noise = (size, size), 6e-4, 0.005
    blur = Convolution(torch.full((1, 15), 1 / 15, dtype=torch.float64), shape)
    synthesis = Haar(shape, levels=5).T
    given = noisy(blur.forward(truth.reshape(1, -1)), noise).reshape(shape)
    return Task(truth, given, lam, noise, Compose(blur, synthesis), synthesis)


def denoising(size: int) -> Task:
    photograph = flower()[:, 106:533]
    truth = torch.nn.functional.interpolate(photograph[None, None], (size, size), mode="bilinear", antialias=True)[0, 0]
    return Task(truth, noisy(truth, 0.1), 0.08, 0.1)


def deblur(size: int = 256) -> Restored:
    """min_c 1/2 |K W'c - y|^2 + lam |c|_1: K a horizontal motion of 15 pixels, W' the inverse Haar transform."""
    task = deblurring(size)
    problem = sp.lasso(task.operator, task.given.reshape(1, -1), task.lam)
    memory, began = Memory(), time.process_time()
    solution = sp.solve(problem, sp.optimizers.FISTA(restart=True), tol=GAP, max_iter=20_000, callback=memory.seen)
    seconds = time.process_time() - began
    assert bool((solution.gap <= GAP * solution.objective).all()), f"gap {solution.gap}"
    numbers = {
        "lam": task.lam,
        "noise": task.noise,
        "nonzero_coefficients": int((solution.x != 0).sum()),
        **outcome(seconds, solution.iterations, solution.gap / solution.objective, memory),
    }
    return restored(task, task.image(solution.x), numbers)


def denoise(size: int = 512) -> Restored:
    """argmin_x 1/2 |x - y|^2 + lam TV(x), isotropic."""
    task = denoising(size)
    memory, began = Memory(), time.process_time()
    denoised = sp.tv_denoise(task.given, task.lam, tol=GAP, max_iter=20_000, engine="kernels", callback=memory.seen)
    seconds = time.process_time() - began
    assert bool((denoised.gap <= GAP * denoised.objective).all()), f"gap {denoised.gap}"
    numbers = {
        "lam": task.lam,
        "noise": task.noise,
        **outcome(seconds, denoised.dual.iterations, denoised.gap / denoised.objective, memory),
    }
    return restored(task, denoised.x, numbers)


def flower() -> Tensor:
    """The photograph flower.jpg inside scikit-learn, (427, 640), between 0 and 1."""
    return torch.from_numpy(load_sample_image("flower.jpg") @ np.array(LUMINANCE) / 255)


def noisy(image: Tensor, size: float) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return image + size * torch.randn(image.shape, generator=generator, dtype=torch.float64)


def outcome(seconds: float, iterations: Tensor, gap: Tensor, memory: Memory) -> dict[str, object]:
    return {
        "iterations": int(iterations.max()),
        "seconds_of_one_core": round(seconds, 2),
        "gap_over_objective": float(gap.max()),
        "peak_memory_MiB": memory.numbers(),
    }


def restored(task: Task, found: Tensor, numbers: dict[str, object]) -> Restored:
    psnr = {"psnr_given": decibels(task.given, task.truth), "psnr_found": decibels(found, task.truth)}
    return Restored(task.truth, task.given, found, {"size": list(task.truth.shape), **psnr, **numbers})


def decibels(image: Tensor, truth: Tensor) -> float:
    """The peak signal-to-noise ratio, for a peak of 1."""
    return round(float(-10 * (image - truth).square().mean().log10()), 2)


def draw(images: Restored, words: str, target: Path) -> None:
    figure, panels = plt.subplots(1, 3, figsize=(11, 4), layout="constrained")
    numbers = images.numbers
    titles = (
        "photograph",
        f"{words}: {numbers['psnr_given']} dB",
        f"restored: {numbers['psnr_found']} dB, gap {numbers['gap_over_objective']:.0e} F",
    )
    for panel, title, image in zip(panels, titles, (images.truth, images.given, images.found), strict=True):
        panel.imshow(image.numpy(), cmap="gray", vmin=0, vmax=1)
        panel.set_title(title, fontsize=10)
        panel.axis("off")
    figure.savefig(target, dpi=110, metadata={"Software": None})
    plt.close(figure)


TASKS: dict[str, tuple[Callable[..., Restored], str]] = {
    "deblur": (deblur, "moved by 15 pixels, with noise"),
    "denoise": (denoise, "with noise"),
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "images")
    out: Path = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    record = {}
    for name, (task, words) in TASKS.items():
        # a process for each: the peak of the memory is that of a whole process
        with ProcessPoolExecutor(1, get_context("spawn"), torch.set_num_threads, (1,)) as alone:
            images = alone.submit(task).result()
        draw(images, words, out / f"{name}.png")
        record[name] = images.numbers
        print(name, images.numbers)
    write_record("imaging", record)


if __name__ == "__main__":
    main()
