"""Hyperspectral scenes and libraries: drawn ones, and those of .mat files that the user has."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.io import loadmat
from scipy.ndimage import gaussian_filter

from sureprox.base.errors import DataError

PIXELS = ("Y", "V")  # (bands, pixels) in the usual files, beside nRow and nCol
SPECTRA = ("datalib", "M", "A")  # (bands, spectra)
BESIDE = 3  # columns of `datalib` before its spectra: wavelength, width and number of the band


@dataclass(frozen=True)
class Scene:
    """Pixels (height width, bands), row after row, and where they are known the shares (height width, spectra)."""

    pixels: np.ndarray
    size: tuple[int, int]
    shares: np.ndarray | None = None


def smooth_library(bands: int = 200, spectra: int = 500, roughness: float = 0.0015, seed: int = 0) -> np.ndarray:
    """(bands, spectra): a slope times up to eight smooth dips for each spectrum, and noise of the instrument.

    The dips are 2 to 20 % of the range wide, so that spectra differ in few directions: their singular values fall to
    1e-4 of the largest, where the noise takes over. At 200 x 500 the condition number is 1.1e4, and the largest cosine
    of two spectra .9999, as in libraries of minerals.
    """
    rng = np.random.default_rng(seed)
    at = np.linspace(0, 1, bands)[:, None]
    columns = np.empty((bands, spectra))
    for j in range(spectra):
        dips = rng.integers(2, 9)
        centre, width, depth = rng.uniform(0, 1, dips), rng.uniform(0.02, 0.2, dips), rng.uniform(0, 0.3, dips)
        slope = rng.uniform(0.2, 0.8) + rng.uniform(-0.2, 0.2) * at[:, 0]
        columns[:, j] = slope * np.exp(-(depth * np.exp(-(((at - centre) / width) ** 2) / 2)).sum(1))
    return np.abs(columns + roughness * rng.standard_normal(columns.shape))


def drawn_scene(library: np.ndarray, size: tuple[int, int], materials: int, snr: float = 40, seed: int = 1) -> Scene:
    """Smooth fields of a few materials, at most three of them in most pixels, and noise `snr` dB below the signal."""
    rng = np.random.default_rng(seed)
    fields = np.stack([gaussian_filter(rng.standard_normal(size), 0.08 * size[0]) for _ in range(materials)])
    fields = np.maximum(fields / fields.std((1, 2), keepdims=True) - 0.3, 0) + 1e-3
    shares = np.zeros((size[0] * size[1], library.shape[1]))
    where = rng.choice(library.shape[1], materials, replace=False)
    shares[:, where] = (fields / fields.sum(0)).reshape(materials, -1).T
    return Scene(noisy(shares @ library.T, snr, rng), size, shares)


def mixed_pixels(library: np.ndarray, count: int, snr: float = 40, seed: int = 1) -> np.ndarray:
    """(count, bands): two to five spectra in each pixel, drawn alone, with uniform shares and noise."""
    rng = np.random.default_rng(seed)
    shares = np.zeros((count, library.shape[1]))
    for row in shares:
        few = rng.integers(2, 6)
        row[rng.choice(library.shape[1], few, replace=False)] = rng.dirichlet(np.ones(few))
    return noisy(shares @ library.T, snr, rng)


def noisy(pixels: np.ndarray, snr: float, rng: np.random.Generator) -> np.ndarray:
    power = np.sqrt((pixels**2).mean(1, keepdims=True)) * 10 ** (-snr / 20)
    return pixels + power * rng.standard_normal(pixels.shape)


def read_scene(path: Path) -> Scene:
    """A cube (height, width, bands), or Y or V (bands, pixels) with nRow and nCol; the largest value becomes 1."""
    arrays = _read(path)
    cubes = [value for value in arrays.values() if value.ndim == 3 and min(value.shape) > 1]
    flat = [arrays[name] for name in PIXELS if name in arrays and arrays[name].ndim == 2]
    if len(cubes) == 1:
        height, width, bands = cubes[0].shape
        pixels = cubes[0].reshape(height * width, bands)
    elif flat and {"nRow", "nCol"} <= set(arrays):
        height, width = (int(arrays[name].item()) for name in ("nRow", "nCol"))
        pixels = flat[0].T.reshape(width, height, -1).swapaxes(0, 1).reshape(height * width, -1)  # column after column
    else:
        raise DataError(
            f"{path} has {_names(arrays)}; a scene is one array (height, width, bands), or Y, nRow and nCol"
        )
    pixels = np.ascontiguousarray(pixels, dtype=float)
    if not np.isfinite(pixels).all() or not pixels.max() > 0:
        raise DataError(f"{path} has pixels that are NaN, infinite, or all zero; leave such bands out first")
    return Scene(pixels / pixels.max(), (height, width))


def read_library(path: Path) -> np.ndarray:
    """(bands, spectra): datalib of the USGS library, without its first three columns, or M, or A."""
    arrays = _read(path)
    for name in SPECTRA:
        if name in arrays and arrays[name].ndim == 2:
            return np.ascontiguousarray(arrays[name][:, BESIDE if name == "datalib" else 0 :], dtype=float)
    raise DataError(f"{path} has {_names(arrays)}; a library is {', '.join(SPECTRA)}: (bands, spectra)")


def _read(path: Path) -> dict[str, Any]:
    try:
        found = loadmat(path)
    except NotImplementedError:
        raise DataError(f"{path} is a .mat of version 7.3; save it with -v7, or convert it") from None
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read as a .mat file: {error}") from None
    return {name: value for name, value in found.items() if isinstance(value, np.ndarray) and value.dtype.kind in "fiu"}


def _names(arrays: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value.shape}" for name, value in arrays.items()) or "no arrays of numbers"
