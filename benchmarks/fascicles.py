"""Diffusion MRI: the sparse fascicle model of dipy in every voxel, as one batch and by dipy's loop over scikit-learn.

    min_{w >= 0, c} 1/(2m) |y - X w - c|^2 + alpha l1_ratio 1'w + alpha (1 - l1_ratio)/2 |w|^2    for every voxel

python benchmarks/fascicles.py [--voxels 100000] [--out docs/images]      (pip install '.[gallery]': dipy with its data)

Real voxels: `small_64D` and `small_101D`, which are inside dipy. Drawn ones: one to three fascicles and noise, by
dipy's simulator. Peers: dipy's loop as it is, and with scikit-learn's tolerance so small that the answers are the same.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import torch
from matplotlib import pyplot as plt
from sklearn.linear_model import ElasticNet

import sureprox as sp

from _judged import Answer, judged, show, times_faster
from _judged import by_certificate as certificate_of
from _record import write_record

ROOT = Path(__file__).parents[1]
OURS = "sureprox.dipy.fit"
FIRST = {"dipy": 1000, "dipy, tol 1e-10": 100, "sureprox.dipy.Solver in dipy": 100}  # voxels of the loops
ALPHA, RATIO = 0.001, 0.5  # dipy's defaults
mpl.use("Agg")


def measured(name: str) -> tuple[np.ndarray, Any]:
    """Voxels (x, y, z, measurements) in dipy's wheel and their gradient table."""
    import nibabel
    from dipy.core.gradients import gradient_table
    from dipy.data import get_fnames
    from dipy.io.gradients import read_bvals_bvecs

    image, values, vectors = get_fnames(name=name)
    bvals, bvecs = read_bvals_bvecs(values, vectors)
    return np.asarray(nibabel.load(image).get_fdata()), gradient_table(bvals, bvecs=bvecs)


def drawn(gtab: Any, voxels: int, seed: int = 0) -> np.ndarray:
    """(voxels, measurements): one to three fascicles of random directions and shares, an SNR of 30."""
    from dipy.sims.voxel import multi_tensor

    rng = np.random.default_rng(seed)
    signals = np.empty((voxels, len(gtab.bvals)))
    for row in signals:
        count = rng.integers(1, 4)
        angles = np.degrees(np.stack([np.arccos(rng.uniform(-1, 1, count)), rng.uniform(0, 2 * np.pi, count)], 1))
        row[:], _ = multi_tensor(
            gtab,
            np.tile([0.0015, 0.0003, 0.0003], (count, 1)),
            S0=100,
            angles=angles,
            fractions=100 * rng.dirichlet(np.full(count, 5.0)),
            snr=30,
            rng=rng,
        )
    return signals


def answers(data: np.ndarray, gtab: Any, first: dict[str, int]) -> Iterator[tuple[Answer, Any]]:
    """Ours and those of the loops to voxels (voxels, measurements), with the fit of dipy that holds them."""
    from dipy.reconst.sfm import SparseFascicleModel

    from sureprox.dipy import Solver, fit

    tight = ElasticNet(alpha=ALPHA, l1_ratio=RATIO, positive=True, tol=1e-10, max_iter=1_000_000)
    ways: dict[str, tuple[Any, Callable[[Any, np.ndarray], Any]]] = {
        OURS: (Solver(ALPHA, RATIO), fit),
        "dipy": ("ElasticNet", lambda model, some: model.fit(some)),
        "dipy, tol 1e-10": (tight, lambda model, some: model.fit(some)),
        "sureprox.dipy.Solver in dipy": (Solver(ALPHA, RATIO), lambda model, some: model.fit(some)),
    }
    for name, (solver, way) in ways.items():
        some = data[: first.get(name, len(data))]
        model = SparseFascicleModel(gtab, solver=solver, alpha=ALPHA, l1_ratio=RATIO)
        began = time.process_time()
        found = way(model, some)
        seconds = time.process_time() - began
        words = name if name == OURS else f"{name}, {len(some):,} voxels"
        yield Answer(words, torch.from_numpy(found.beta), seconds), found


def centred(data: np.ndarray, gtab: Any) -> sp.Problem:
    """m times the objectives of all voxels, without c: X and y are centred."""
    from dipy.reconst.sfm import IsotropicModel, SparseFascicleModel

    X = SparseFascicleModel(gtab).design_matrix
    signal = data[:, ~gtab.b0s_mask] / data[:, gtab.b0s_mask].mean(1, keepdims=True)
    y = signal - IsotropicModel(gtab).fit(data).predict()
    m = len(X)
    penalty = sp.penalties.Separable(l1=m * ALPHA * RATIO, l2=m * ALPHA * (1 - RATIO), low=0.0)
    return sp.Problem(sp.losses.LeastSquares(X - X.mean(0), y - y.mean(1, keepdims=True)), penalty)


def compare(
    data: np.ndarray, gtab: Any, first: dict[str, int]
) -> tuple[Any, dict[str, dict[str, float]], dict[str, float]]:
    """Our fit, what the answers are worth, and how much faster ours is."""
    from sureprox.dipy import Solver

    Solver().fit(np.eye(3), np.ones((3, 2)))  # kernels are built
    found = list(answers(data, gtab, first))
    rows = judged(certificate_of(centred(data, gtab)), [answer for answer, _ in found])
    return found[0][1], rows, times_faster(rows, OURS)


def draw(found: Any, data: np.ndarray, gtab: Any, shape: tuple[int, ...], target: Path) -> None:
    """The strongest direction in a slice, how many fascicles there are, and the signal of a voxel beside its fit."""
    sphere = found.model.sphere
    strongest = np.abs(sphere.vertices[found.beta.argmax(1)]) * np.minimum(1, 4 * found.beta.max(1))[:, None]
    middle = shape[2] // 2
    figure, panels = plt.subplots(1, 3, figsize=(11, 3.4), width_ratios=(1, 1.15, 1.6), layout="constrained")
    panels[0].imshow(strongest.reshape(*shape, 3)[:, :, middle])
    panels[0].set_title("strongest direction", fontsize=10)
    shown = panels[1].imshow((found.beta > 0).sum(1).reshape(shape)[:, :, middle], cmap="viridis")
    panels[1].set_title("nonzero of 362 directions", fontsize=10)
    figure.colorbar(shown, ax=panels[1])
    for panel in panels[:2]:
        panel.axis("off")
    voxel = int(found.beta.max(1).argmax())
    panels[2].plot(data[voxel, ~gtab.b0s_mask], "k.", ms=4, label="measured")
    panels[2].plot(found.predict()[voxel, ~gtab.b0s_mask], "r-", lw=0.9, label="fitted")
    panels[2].set(title=f"voxel {voxel}", xlabel="direction of the gradient", ylabel="signal")
    panels[2].legend(fontsize=8, frameon=False)
    figure.savefig(target, dpi=110, metadata={"Software": None})
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--voxels", type=int, default=100_000, help="drawn voxels")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "images")
    chosen = parser.parse_args()
    if find_spec("dipy") is None or find_spec("nibabel") is None:
        sys.exit("dipy or nibabel is not installed, whose voxels and loop this is about: pip install dipy nibabel")
    torch.set_num_threads(1)
    record: dict[str, Any] = {"protocol": "processor seconds of one run in float64, set-up included", "volumes": {}}
    tables = {}
    for name in ("small_64D", "small_101D", "drawn"):
        volume, gtab = measured("small_64D" if name == "drawn" else name)
        data = drawn(gtab, chosen.voxels) if name == "drawn" else volume.reshape(-1, volume.shape[-1])
        found, rows, faster = compare(data, gtab, FIRST)
        print(name)
        show(rows)
        print("times as fast, by the voxel:", ", ".join(f"{peer} {ratio}" for peer, ratio in faster.items()))
        record["volumes"][name] = {"voxels": len(data), "times_faster": faster}
        tables |= {f"{name}: {words}": row for words, row in rows.items()}
        if name == "small_64D":
            chosen.out.mkdir(parents=True, exist_ok=True)
            draw(found, data, gtab, volume.shape[:3], chosen.out / "fascicles.png")
    write_record("fascicles", record | {"answers": tables})


if __name__ == "__main__":
    main()
