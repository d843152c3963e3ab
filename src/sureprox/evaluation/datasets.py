"""The problems of a source, their starting points and their optimal values."""

import hashlib
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from io import BytesIO
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from sureprox.base.errors import InputError, SureproxError
from sureprox.base.files import write_atomically
from sureprox.base.types import Scalars, Vectors
from sureprox.evaluation.metrics import gap_scale
from sureprox.optimizers import FISTA
from sureprox.problems import Problem
from sureprox.problems.forms import Shape, repeated, shape_of
from sureprox.solve.reference import Reference, reference
from sureprox.solve.solve import Solution, solve
from sureprox.sources import LassoFamily, LogisticFamily
from sureprox.sources.families import Family
from sureprox.sources.problem_files.numpy_files import read_npz

SEEDS = 1_000_000  # added to the seed, so that no problem of a training run comes back
REFERENCE_TOL = 1e-12  # relative duality gap of F*: far below what is plotted
REFERENCE_CHUNK = 256
MOST_ITERATIONS = 200_000
_FAMILIES: dict[str, Family] = {"lasso": LassoFamily(), "logistic": LogisticFamily()}


@dataclass(frozen=True)
class Instances:
    """The problems of a source and where they start; float64 copies of float32 data, so exact in both."""

    source: str
    origin: str  # where the data come from, in words
    problem: Problem
    start: Vectors
    repeated: bool = False  # one problem from many starts

    @cached_property
    def fingerprint(self) -> str:
        """A hash of all numbers."""
        digest = hashlib.sha256()
        for tensor in (*self.problem.tensors(), self.start):
            digest.update(str(tuple(tensor.shape)).encode())
            digest.update(tensor.contiguous().cpu().numpy().data)
        return digest.hexdigest()


@dataclass(frozen=True)
class Dataset:
    """Instances on a device, with their optimal values."""

    instances: Instances
    best: Scalars  # F*, (B,)
    precision: float  # largest relative duality gap of F*

    @property
    def problem(self) -> Problem:
        return self.instances.problem

    @property
    def start(self) -> Vectors:
        return self.instances.start


def draw(source: str, count: int, seed: int, dictionary: str = "ours") -> Instances:
    """`count` instances of a source, drawn on the CPU so that they are the same for every device.

    Of the image patches, in this `dictionary`, `count` are taken, evenly spaced (at most all of them). Ionosphere and
    Spambase are one problem each; their instances are `count` starting points.
    """
    generator = torch.Generator().manual_seed(SEEDS + seed)
    repeated = False
    if source in _FAMILIES:
        family = _FAMILIES[source]
        problem, origin = family.sample(count, generator), f"{family}, seed {SEEDS + seed}"
    else:
        options = {"dictionary": dictionary} if source == "patches" else {}
        found = getattr(import_module("sureprox.sources.real"), source)(**options)
        problem, origin = found.problem.to(dtype=torch.float32), f"{found.name}: {found.source}"
        repeated = problem.batch == 1
        if repeated:
            problem = _repeated(problem, count)
        elif problem.batch > count:
            problem = problem.select(torch.arange(count) * problem.batch // count)
    start = torch.randn(problem.batch, problem.n, generator=generator)
    return Instances(source, origin, problem.to(dtype=torch.float64), start.double(), repeated)


def solved(instances: Instances, cache: Path, device: torch.device) -> Dataset:
    """The instances on `device` with F* to a relative duality gap of `REFERENCE_TOL`, kept in the directory `cache`."""
    problem = instances.problem
    path = cache / f"{instances.source}-{problem.batch}-{instances.fingerprint[:16]}.npz"
    kept = _kept(path, 1 if instances.repeated else problem.batch)
    if kept is not None:
        best, gap = kept
    else:
        best, gap = _optimal_values(problem.select(torch.arange(1)) if instances.repeated else problem, device)
        buffer = BytesIO()
        np.savez(buffer, best=best.numpy(), gap=gap.numpy())
        write_atomically(path, buffer.getvalue())
    there = Instances(
        instances.source, instances.origin, problem.to(device), instances.start.to(device), instances.repeated
    )
    precision = float((gap / gap_scale(best)[0]).max())
    return Dataset(there, best.expand(problem.batch).to(device), precision)


def _kept(path: Path, count: int) -> tuple[Tensor, Tensor] | None:
    """F* and its duality gap, (count,) each, as an earlier run has left them; None if it has not, or not whole."""
    try:
        arrays, _ = read_npz(path, ("best", "gap"))
        found = (arrays["best"], arrays["gap"])
    except Exception:  # damaged bytes make the readers of zip, zlib and numpy headers raise almost anything
        return None
    if any(value.shape != (count,) or value.dtype != np.float64 or not np.isfinite(value).all() for value in found):
        return None
    return torch.tensor(found[0]), torch.tensor(found[1])


def _optimal_values(problem: Problem, device: torch.device) -> tuple[Tensor, Tensor]:
    """F* and its duality gap, (B,) each, on the CPU."""
    values, gaps = [], []
    for part in torch.arange(problem.batch).split(REFERENCE_CHUNK):
        found = _solved_to_the_end(problem.select(part).to(device))
        values.append(found.objective.cpu())
        gaps.append(found.gap.cpu())
    return torch.cat(values), torch.cat(gaps)


def _solved_to_the_end(problem: Problem) -> Reference | Solution:
    """F* by `reference`, or by iterations where its Newton steps on single coordinates make no sense: with groups."""
    if shape_of(problem) not in (Shape.GROUPS, Shape.BALLS):
        return reference(problem, REFERENCE_TOL)
    found = solve(problem, FISTA(restart=True), max_iter=MOST_ITERATIONS, tol=REFERENCE_TOL, certify=False)
    if not bool(found.converged.all()):
        raise SureproxError(f"no F* to a relative gap of {REFERENCE_TOL:g} in {MOST_ITERATIONS:,} iterations")
    return found


def _repeated(problem: Problem, count: int) -> Problem:
    """One problem as a batch of `count` equal instances that share its matrix."""
    made = repeated(problem, count)
    if made is None:
        raise InputError(f"only linear models with an L1 penalty are repeated, got {problem!r}")
    return made
