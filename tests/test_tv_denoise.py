"""Total variation denoising against long proximal steps on the dual in numpy, whose values its gap must bracket."""

import numpy as np
import pytest
import torch

import sureprox as sp
from helpers import F64, normal, refused

NAN = float("nan")


def differences(size: tuple[int, ...]) -> list[np.ndarray]:
    """One matrix for each axis; a row of zeros where there is no next point."""

    def along(n: int) -> np.ndarray:
        D = np.eye(n, k=1) - np.eye(n)
        D[-1] = 0
        return D

    if len(size) == 1:
        return [along(size[0])]
    h, w = size
    return [np.kron(along(h), np.eye(w)), np.kron(np.eye(h), along(w))]


def primal(x: np.ndarray, y: np.ndarray, lam: float, size: tuple[int, ...], isotropic: bool) -> float:
    steps = np.stack([D @ x.ravel() for D in differences(size)])
    variation = np.sqrt((steps**2).sum(0)) if isotropic else np.abs(steps).sum(0)
    return float(((x - y) ** 2).sum() / 2 + lam * variation.sum())


def bracket(y: np.ndarray, lam: float, size: tuple[int, ...], isotropic: bool) -> tuple[float, float]:
    """(lower, upper) bounds of the minimum: a dual and a primal value, by accelerated projected gradient steps."""
    D = np.stack(differences(size))  # (axes, n, n)
    p = q = np.zeros(D.shape[:2])
    t, step = 1.0, 1 / (4 * len(size))
    for _ in range(4000):
        x = y.ravel() - np.einsum("amn,am->n", D, q)
        v = q + step * np.einsum("amn,n->am", D, x)
        norms = np.sqrt((v**2).sum(0)) if isotropic else np.abs(v)
        new = v / np.maximum(1, norms / lam)
        after = (1 + np.sqrt(1 + 4 * t * t)) / 2
        q, p, t = new + (t - 1) / after * (new - p), new, after
    x = y.ravel() - np.einsum("amn,am->n", D, p)
    return float((y**2).sum() - (x**2).sum()) / 2, primal(x, y.ravel(), lam, size, isotropic)


def signal(*shape: int, seed: int = 0) -> torch.Tensor:
    """Steps and noise."""
    rows = normal(*shape, seed=seed)
    rows[..., : shape[-1] // 2] += 3
    return rows


@pytest.mark.parametrize("isotropic", [True, False])
@pytest.mark.parametrize(("shape", "dims"), [((14,), 1), ((3, 14), 1), ((6, 5), 2), ((2, 5, 6), 2), ((1, 9), 2)])
def test_the_minimum_is_that_of_the_dual_in_numpy(shape, dims, isotropic):
    y, size = signal(*shape), shape[-dims:]
    for lam in (0.2, 1.5):
        found = sp.tv_denoise(y, lam, dims=dims, isotropic=isotropic, tol=1e-7)
        assert found.x.shape == y.shape
        assert found.converged.all()
        rows, xs = y.reshape(-1, *size).numpy(), found.x.reshape(-1, *size).numpy()
        for i, (row, x) in enumerate(zip(rows, xs, strict=True)):
            lower, upper = bracket(row, lam, size, isotropic)
            assert upper - lower <= 1e-6 * upper  # the bracket is one
            value = primal(x, row, lam, size, isotropic)
            assert value == pytest.approx(float(found.objective[i]), rel=1e-9)
            assert lower * (1 - 1e-9) <= value <= upper * (1 + 1e-6)
            assert float(found.objective[i] - found.gap[i]) <= upper * (1 + 1e-12)  # the gap is a bound
            assert np.abs(x - row).max() > 0.05
            assert np.ptp(x) < np.ptp(row)


@pytest.mark.parametrize("max_iter", [0, 1, 3, 10])
def test_the_gap_is_a_bound_wherever_the_solve_ends(max_iter):
    y, loose = signal(5, 6), 0
    for isotropic in (True, False):
        _, upper = bracket(y.numpy(), 0.8, (5, 6), isotropic)
        found = sp.tv_denoise(y, 0.8, isotropic=isotropic, tol=1e-10, max_iter=max_iter)
        assert float(found.objective[0] - found.gap[0]) <= upper * (1 + 1e-12)
        loose += float(found.gap[0]) > 1e-6
        assert not (found.converged & (found.gap > 1e-10 * found.objective)).any()
    assert loose or max_iter > 3


def test_isotropic_and_anisotropic_are_different_in_two_dimensions_and_equal_in_one():
    image = signal(6, 6)
    one, other = (sp.tv_denoise(image, 0.7, isotropic=kind, tol=1e-8).x for kind in (True, False))
    assert (one - other).abs().max() > 1e-2
    line = signal(12)
    one, other = (sp.tv_denoise(line, 0.7, isotropic=kind, tol=1e-8).x for kind in (True, False))
    torch.testing.assert_close(one, other)


def test_instances_are_independent_and_have_their_own_lam():
    y, lam = signal(3, 10), torch.tensor([0.1, 0.5, 2.0], dtype=F64)
    together = sp.tv_denoise(y, lam, dims=1, tol=1e-8)
    for i in range(3):
        alone = sp.tv_denoise(y[i], float(lam[i]), tol=1e-8)
        torch.testing.assert_close(alone.objective[0], together.objective[i], rtol=1e-7, atol=0)
    assert together.objective[0] < together.objective[2]


def test_a_large_lam_gives_the_mean_and_none_gives_y():
    y = signal(5, 4)
    flat = sp.tv_denoise(y, 100.0, tol=1e-8).x
    torch.testing.assert_close(flat, y.mean().expand(5, 4), rtol=0, atol=1e-6)
    torch.testing.assert_close(sp.tv_denoise(y, 0.0).x, y, rtol=1e-12, atol=1e-12)
    assert sp.tv_denoise(torch.ones(4, 4), 1.0).converged.all()


def test_whole_numbers_are_taken_as_floats():
    y = (9 * signal(6, 5)).round()
    torch.testing.assert_close(sp.tv_denoise(y.long(), 1.0).x, sp.tv_denoise(y, 1.0).x)


def test_float32_stays_and_its_answer_is_close():
    y = signal(6, 5)
    single = sp.tv_denoise(y.float(), 0.7)
    assert single.x.dtype == torch.float32
    assert single.converged.all()
    torch.testing.assert_close(single.objective, sp.tv_denoise(y, 0.7).objective, rtol=1e-3, atol=0)


BAD = {
    "nan": (lambda y: sp.tv_denoise(y * NAN, 1.0), "y has 30 entries that are NaN"),
    "complex": (lambda y: sp.tv_denoise(y.to(torch.complex128), 1.0), "y has dtype torch.complex128"),
    "masked": (lambda y: sp.tv_denoise(np.ma.masked_less(y.numpy(), 9e9), 1.0), "30 masked entries"),
    "sparse": (lambda y: sp.tv_denoise(y.to_sparse(), 1.0), "layout torch.sparse_coo"),
    "a word": (lambda y: sp.tv_denoise("image", 1.0), "y is a str"),
    "no dimensions": (lambda y: sp.tv_denoise(y[0, 0], 1.0), "y has shape ()"),
    "four dimensions": (lambda y: sp.tv_denoise(y[None, None], 1.0), "y has shape (1, 1, 6, 5)"),
    "dims": (lambda y: sp.tv_denoise(y, 1.0, dims=3), "dims=1"),
    "one point": (lambda y: sp.tv_denoise(y[:1, :1], 1.0), "at least two points"),
    "no images": (lambda y: sp.tv_denoise(y[None][:0], 1.0), "the batch is empty"),
    "negative lam": (lambda y: sp.tv_denoise(y, -1.0), "lam is -1", ">= 0"),
    "nan lam": (lambda y: sp.tv_denoise(y, NAN), "lam has 1 entries that are NaN"),
    "complex lam": (lambda y: sp.tv_denoise(y, 1j), "lam is a complex"),
    "lams for no batch": (lambda y: sp.tv_denoise(y, torch.ones(6, dtype=F64)), "lam has shape (6,)"),
    "tol": (lambda y: sp.tv_denoise(y, 1.0, tol=0.0), "tol is 0.0"),
    "tol of text": (lambda y: sp.tv_denoise(y, 1.0, tol="small"), "tol is 'small'"),
    "empty": (lambda y: sp.tv_denoise(y[0, :0], 1.0), "y has shape (0,)", "it is empty"),
    "x0": (lambda y: sp.tv_denoise(y, 1.0, x0=y), "leave out x0"),
    "max_iter": (lambda y: sp.tv_denoise(y, 1.0, max_iter=-1), "max_iter is -1"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused(case):
    call, *parts = BAD[case]
    refused(lambda: call(normal(6, 5)), *parts)
