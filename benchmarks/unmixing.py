"""Sparse unmixing: which spectra of a library, and how much of each, make the pixels of a hyperspectral image.

    min_{x >= 0} 1/2 |A x - y_p|^2 + lam 1'x   for every pixel p, with one library A (bands, spectra)

python benchmarks/unmixing.py [--scene FILE.mat] [--library FILE.mat] [--out docs/images]

All pixels by one call of `sp.solve`, beside SciPy's nnls in a loop, scikit-learn's Lasso(positive=True), an ADMM for
all pixels at once (the method of SUnSAL) and restarted FISTA, on one core each; slow ones get the first pixels only.
The library is drawn with the conditioning of measured ones, or read from .mat files, in which case nothing is recorded.
`nnls` gets lam by one more row: |A x - y|^2 + |e 1'x + lam / e|^2, whose e^2 (1'x)^2 / 2 is below 1e-6 F.
"""

import argparse
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
import numpy as np
import torch
from matplotlib import pyplot as plt
from scipy.optimize import nnls
from sklearn.linear_model import Lasso

import sureprox as sp

from _judged import Answer, by_certificate, judged, show, times_faster
from _record import write_record
from _scenes import Scene, drawn_scene, read_library, read_scene, smooth_library

ROOT = Path(__file__).parents[1]
LAM, TOL = 1e-3, 1e-6
SIZE, MATERIALS = (100, 100), 5
OURS = "sureprox, all pixels"
FIRST = {"nnls": 500, "scikit-learn": 5, "ADMM": 20, "restarted FISTA": 5}  # pixels of the peers
STEPS = {"ADMM": 5000, "restarted FISTA": 6000, "scikit-learn": 100_000}
E2 = 1e-9  # e^2: the more, the further from the problem; the less, the further from its digits
mpl.use("Agg")

Peer = Callable[[np.ndarray, np.ndarray, float], np.ndarray]


def by_nnls(A: np.ndarray, Y: np.ndarray, lam: float) -> np.ndarray:
    e = E2**0.5
    taller = np.vstack([A, np.full((1, A.shape[1]), e)])
    return np.stack([nnls(taller, np.append(y, -lam / e))[0] for y in Y])


def by_scikit_learn(A: np.ndarray, Y: np.ndarray, lam: float) -> np.ndarray:
    """Coordinate descent on A'A, to a gap of 1e-6 of the smallest F that noise of 40 dB leaves."""
    model = Lasso(alpha=lam / len(A), fit_intercept=False, positive=True, precompute=A.T @ A, tol=1e-10)
    model.set_params(max_iter=STEPS["scikit-learn"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what has not converged is seen in the gap
        return np.atleast_2d(model.fit(np.asfortranarray(A), np.asfortranarray(Y.T)).coef_)


def by_admm(A: np.ndarray, Y: np.ndarray, lam: float) -> np.ndarray:
    """X = (A'A + mu)^-1 (A'Y + mu (U - D)), U = max(X + D - lam/mu, 0), D += X - U, with the best of five mu."""
    few = Y[:10]
    values = {mu: cost(A, few, lam, admm(A, few, lam, mu, STEPS["ADMM"] // 10)) for mu in np.logspace(-4, 0, 5)}
    return admm(A, Y, lam, min(values, key=lambda mu: values[mu]), STEPS["ADMM"])


def admm(A: np.ndarray, Y: np.ndarray, lam: float, mu: float, steps: int) -> np.ndarray:
    inverse = np.linalg.inv(A.T @ A + mu * np.eye(A.shape[1]))
    fixed = Y @ A @ inverse
    U, D = np.zeros_like(fixed), np.zeros_like(fixed)
    for _ in range(steps):
        X = fixed + (U - D) @ (mu * inverse)
        U = np.maximum(X + D - lam / mu, 0)
        D += X - U
    return U


def cost(A: np.ndarray, Y: np.ndarray, lam: float, X: np.ndarray) -> float:
    return float(np.square(X @ A.T - Y).sum() / 2 + lam * X.sum())


def by_fista(A: np.ndarray, Y: np.ndarray, lam: float) -> np.ndarray:
    problem = sp.nonnegative(A, Y, l1=lam)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sp.ConvergenceWarning)
        fista = sp.optimizers.FISTA(restart=True)
        return sp.solve(problem, fista, tol=TOL, max_iter=STEPS["restarted FISTA"], certify=False).x.numpy()


PEERS: dict[str, Peer] = {
    "nnls": by_nnls,
    "scikit-learn": by_scikit_learn,
    "ADMM": by_admm,
    "restarted FISTA": by_fista,
}


def unmix(A: np.ndarray, scene: Scene, first: dict[str, int]) -> tuple[sp.Solution, dict[str, dict[str, float]]]:
    """Our solution of all pixels, and what it and the answers of the peers to their first pixels are worth."""
    problem = sp.nonnegative(A, scene.pixels, l1=LAM)
    sp.prepare(problem)
    began = time.process_time()
    solution = sp.solve(sp.nonnegative(A, scene.pixels, l1=LAM), tol=TOL)
    answers = [Answer(OURS, solution.x, time.process_time() - began)]
    for name, peer in PEERS.items():
        some = scene.pixels[: first[name]]
        began = time.process_time()
        x = peer(A, some, LAM)
        answers.append(Answer(f"{name}, {len(some):,} pixels", torch.from_numpy(x), time.process_time() - began))
    return solution, judged(by_certificate(problem), answers)


def conditioning(A: np.ndarray) -> dict[str, float]:
    values = np.linalg.svd(A, compute_uv=False)
    unit = A / np.linalg.norm(A, axis=0)
    cosines = unit.T @ unit - 2 * np.eye(A.shape[1])
    return {"condition_number": float(values[0] / values[-1]), "largest_cosine": float(cosines.max())}


def draw(A: np.ndarray, scene: Scene, found: np.ndarray, target: Path) -> None:
    """The library, and of the two commonest materials the true share of each pixel beside the one that was found."""
    commonest = np.argsort((found if scene.shares is None else scene.shares).sum(0))[::-1][:2]
    figure, panels = plt.subplots(1, 5, figsize=(13, 2.8), width_ratios=(1.4, 1, 1, 1, 1), layout="constrained")
    panels[0].plot(np.linspace(0, 1, len(A)), A[:, ::10], lw=0.6)
    panels[0].set(title=f"every tenth of {A.shape[1]} spectra", xlabel="band", xticks=[])
    for place, j in enumerate(commonest):
        for panel, values, words in zip(
            panels[1 + 2 * place : 3 + 2 * place],
            (found[:, j] if scene.shares is None else scene.shares[:, j], found[:, j]),
            ("found" if scene.shares is None else "true", "found"),
            strict=True,
        ):
            panel.imshow(values.reshape(scene.size), vmin=0, vmax=1, cmap="viridis")
            panel.set_title(f"spectrum {j}, {words}", fontsize=10)
            panel.axis("off")
    figure.savefig(target, dpi=110, metadata={"Software": None})
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--scene", type=Path, help="a .mat file with pixels")
    parser.add_argument("--library", type=Path, help="a .mat file with spectra")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "images")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    A = read_library(chosen.library) if chosen.library else smooth_library()
    scene = read_scene(chosen.scene) if chosen.scene else drawn_scene(A, SIZE, MATERIALS)
    solution, rows = unmix(A, scene, FIRST)
    show(rows)
    chosen.out.mkdir(parents=True, exist_ok=True)
    draw(A, scene, solution.x.numpy(), chosen.out / "unmixing.png")
    if chosen.scene or chosen.library:
        return
    faster = times_faster(rows, OURS)
    print("times as fast, by the pixel:", ", ".join(f"{name} {ratio}" for name, ratio in faster.items()))
    write_record(
        "unmixing",
        {
            "protocol": "processor seconds of one run in float64, set-up included",
            "setting": {"bands": A.shape[0], "spectra": A.shape[1], "pixels": len(scene.pixels), "lam": LAM}
            | conditioning(A),
            "certified": int(solution.converged.sum()),
            "spectra_in_a_pixel": float((solution.x > 0).sum(1).double().mean()),
            "answers": rows,
            "times_faster": faster,
        },
    )


if __name__ == "__main__":
    main()
