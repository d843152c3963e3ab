"""The paper's real problems: Ionosphere, Spambase and image patches. docs/data.md says where the data come from."""

import io
from contextlib import suppress
from dataclasses import dataclass
from zipfile import BadZipFile

import numpy as np
import torch
from torch import Tensor

from sureprox.base import cache
from sureprox.base.errors import DataError, InputError
from sureprox.base.files import write_atomically
from sureprox.base.types import Rows
from sureprox.problems.constructors import lasso, logistic
from sureprox.problems.problem import Problem
from sureprox.sources import download
from sureprox.sources.download import DataFile
from sureprox.sources.ksvd import ksvd, released_ksvd
from sureprox.sources.photographs import photograph_patches
from sureprox.sources.tables import Table, parse, standardised

UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases"
IONOSPHERE = DataFile("ionosphere.data", "46d52186b84e20be52918adb93e8fb9926b34795ff7504c24350ae0616a04bbd")
SPAMBASE = DataFile("spambase.data", "b1ef93de71f97714d3d7d4f58fc9f718da7bbc8ac8a150eff2778616a8097b12")
BSDS500 = DataFile(
    "bsds500_test_patches_8x8_1000.npz", "ca969d40aab96a0c74b0b5c6944bdf58403663abc24d5da39a408943bc09527b"
)

IONOSPHERE_SHAPE = (351, 34)

# The LASSO solutions of the patches have about 5 nonzeros (4.9 on average), so that is what our atoms are learned for.
# The released recipe has 6, a tenth of 64. Dictionary: nonzeros, iterations.
RECIPES = {"ours": (5, 20), "released": (6, 10)}
ATOMS, SEED = 128, 0
LEARNER = 1  # raise it whenever `ksvd` or `omp` change what they compute: cached dictionaries are then left alone


@dataclass(frozen=True)
class RealData:
    """A problem made from real data, in float64 on the CPU, and where those come from, in words."""

    name: str
    source: str
    problem: Problem


def ionosphere() -> RealData:
    """Radar returns, good (1) or bad (0): logistic, one instance, A (351, 34) standardised, lam = 0.1."""
    table = Table(IONOSPHERE.name, rows=IONOSPHERE_SHAPE[0], features=IONOSPHERE_SHAPE[1], labels={"b": 0.0, "g": 1.0})
    return _classification("ionosphere", IONOSPHERE, f"{UCI}/ionosphere/{IONOSPHERE.name}", table)


def spambase() -> RealData:
    """E-mails, spam (1) or not (0): logistic, one instance, A (4601, 57) standardised, lam = 0.1."""
    table = Table(SPAMBASE.name, rows=4601, features=57, labels={"0": 0.0, "1": 1.0})
    return _classification("spambase", SPAMBASE, f"{UCI}/spambase/{SPAMBASE.name}", table)


def patches(dictionary: str = "ours") -> RealData:
    """1,000 image patches in a dictionary learned from them: LASSO, shared A (64, 128), b (1000, 64), lam = 0.5.

    `dictionary`: "ours", by `ksvd`, with L = 24; or "released", by the recipe of the authors' released code
    (`released_ksvd`), with L near 14. How many iterations a method needs depends on it.

    The patches are those of BSDS500 where SUREPROX_DATA holds them, else patches of two photographs that ship inside
    scikit-learn. Patches of constant brightness are zero, and so are their solutions and F*.
    """
    content = download.local_copy(BSDS500)
    if content is None:
        b = photograph_patches(1000)
        source = f"photographs that ship inside scikit-learn (no {BSDS500.name} in SUREPROX_DATA)"
    else:
        b = _patches_of(content)
        source = f"BSDS500, local copy of {BSDS500.name}"
    source += "" if dictionary == "ours" else ", dictionary of the released recipe"
    return RealData("patches", source, lasso(learned_dictionary(b, dictionary), b, 0.5))


def learned_dictionary(signals: Rows, dictionary: str = "ours") -> Tensor:
    """128 unit atoms for `signals` (N, m) by K-SVD, kept in the cache: learned once, the same bits ever after."""
    if dictionary not in RECIPES:
        raise InputError(f"dictionary is {dictionary!r}; choose one of {', '.join(RECIPES)}")
    nonzeros, iterations = RECIPES[dictionary]
    Y = signals.contiguous().numpy()
    learner = str(LEARNER) if dictionary == "ours" else f"{dictionary} {LEARNER}"
    recipe = f"{learner} {ATOMS} {nonzeros} {iterations} {SEED} {Y.shape}"
    key = download.sha256(recipe.encode() + Y.astype("<f8").tobytes())
    path = cache.cache_directory() / f"dictionary-{key[:32]}.npy"
    cached = _dictionary_of(download.read(path), (Y.shape[1], ATOMS))
    if cached is not None:
        return cached
    generator = torch.Generator().manual_seed(SEED)
    if dictionary == "ours":
        learned = ksvd(signals, ATOMS, nonzeros, iterations, generator=generator).dictionary
    else:
        learned = released_ksvd(signals, ATOMS, nonzeros, iterations, generator=generator)
    buffer = io.BytesIO()
    np.save(buffer, learned.numpy())
    with suppress(OSError):  # a cache that cannot be written costs a second each time, nothing else
        write_atomically(path, buffer.getvalue())
    return learned


def _classification(name: str, file: DataFile, url: str, table: Table) -> RealData:
    content, source = download.local_copy(file), f"UCI Machine Learning Repository, local copy of {file.name}"
    if content is None:
        content, source = download.downloaded(file, url), f"UCI Machine Learning Repository, downloaded from {url}"
    A, y = parse(table, content)
    return RealData(name, source, logistic(standardised(A), y, 0.1, curvature=1.0))  # the paper's L


def _patches_of(content: bytes) -> Rows:
    """The patches (1000, 64) in an npz file."""
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            found = arrays["patches"]
    except (OSError, ValueError, KeyError, EOFError, BadZipFile) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(f"{BSDS500.name} is damaged ({reason}); take the file from its source again") from None
    if found.shape != (1000, 64) or found.dtype.kind != "f" or not np.isfinite(found).all():
        raise DataError(
            f"{BSDS500.name} holds patches of shape {found.shape} and type {found.dtype}; "
            "expected (1000, 64) finite floats"
        )
    return torch.from_numpy(found.astype(np.float64))


def _dictionary_of(content: bytes | None, shape: tuple[int, int]) -> Tensor | None:
    """The dictionary in a cached file; None if there is none, or not a whole one."""
    try:
        found = np.load(io.BytesIO(content or b""), allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    if found.shape != shape or found.dtype != np.float64:
        return None
    dictionary = torch.from_numpy(found)
    unit = (torch.linalg.vector_norm(dictionary, dim=0) - 1).abs() <= 1e-12
    return dictionary if bool(unit.all()) else None
