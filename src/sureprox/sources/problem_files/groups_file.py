"""The group of each coordinate, from a text file or a `.npy`."""

from pathlib import Path

import numpy as np
import numpy.typing as npt

from sureprox.base.errors import InputError
from sureprox.base.words import no_file
from sureprox.sources.problem_files.numpy_files import read_npy

MOST_BYTES = 2**30


def read_groups(path: Path) -> npt.NDArray[np.int64]:
    """(n,) whole numbers, -1 for a coordinate in no group; text has them between spaces, commas or lines."""
    if not path.is_file():
        raise InputError(f"{no_file(path)}; give a text file or .npy with the group of each coordinate")
    found = read_npy(path) if path.suffix.lower() == ".npy" else _read_text(path)
    flat = found.reshape(-1) if found.ndim and found.size == max(found.shape) else found
    if flat.ndim != 1 or not np.isfinite(flat).all() or (flat != np.round(flat)).any():
        raise InputError(f"{path.name} must hold one whole number for each coordinate; it has shape {found.shape}")
    return flat.astype(np.int64)


def _read_text(path: Path) -> npt.NDArray[np.int64]:
    if path.stat().st_size > MOST_BYTES:
        raise InputError(f"{path.name} is too large for a list of groups; save it as .npy")
    numbers = []
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise InputError(f"{path.name} is not text; give whole numbers as text, or save them as .npy") from None
    for number, line in enumerate(lines, 1):
        for word in line.replace(",", " ").split():
            try:
                numbers.append(int(word))
            except ValueError:
                raise InputError(f"{path.name}, line {number} has {word[:20]!r}, not a whole number") from None
            if abs(numbers[-1]) > 2**31:
                raise InputError(f"{path.name}, line {number} has {word[:20]}; groups are numbered from 0")
    if not numbers:
        raise InputError(f"{path.name} has no numbers; give the group of each coordinate")
    return np.array(numbers, dtype=np.int64)
