"""Approximate K-SVD: a dictionary in which given signals have sparse representations.

    min_{D, X} |Y - X D'|_F   with unit columns of D and at most T nonzeros in each row of X

R. Rubinstein, M. Zibulevsky, M. Elad, "Efficient Implementation of the K-SVD Algorithm using Batch Orthogonal Matching
Pursuit", Technion CS-2008-08: each atom is improved by one power step instead of a singular value decomposition.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from sureprox.base.errors import InputError
from sureprox.base.types import Rows, Scalars, Vectors
from sureprox.base.words import require_whole
from sureprox.problems import checks
from sureprox.sources.omp import NEGLIGIBLE, omp

DUPLICATE = 0.99  # |cosine| above which two atoms count as one


@dataclass(frozen=True)
class KSVD:
    """Signals Y ~ X D'."""

    dictionary: Tensor  # D (m, atoms), unit columns
    codes: Tensor  # X (N, atoms), at most `nonzeros` entries in each row
    errors: Tensor  # (iterations + 1,): |Y - X D'|_F with the initial dictionary and after each iteration


def ksvd(
    signals: Any, atoms: int = 128, nonzeros: int = 5, iterations: int = 20, *, generator: torch.Generator
) -> KSVD:
    """A dictionary for `signals` (N, m), in float64 on the CPU. The generator chooses the initial atoms.

    An iteration improves every atom in turn, codes all signals anew and gives idle atoms another place. None of the
    three increases the error: a signal keeps its old code where the new one is worse, and an atom moves only where
    that helps.
    """
    Y = _checked(signals, atoms, nonzeros, iterations, generator)
    scale = Y.abs().max().clamp(min=torch.finfo(Y.dtype).tiny)
    Y = Y / scale  # squares of the data neither overflow nor underflow
    D = _initial(Y, atoms, generator)
    X = omp(Y, D, nonzeros)
    errors = [torch.linalg.vector_norm(Y - X @ D.T)]
    for _ in range(iterations):
        before = D, X
        D, X = _improve_atoms(Y, D, X)
        X = _recode(Y, D, X, nonzeros)
        D, X = _replace_idle(Y, D, X)
        error = torch.linalg.vector_norm(Y - X @ D.T)
        if error > errors[-1]:  # only rounding can do this, once nothing is left to gain
            (D, X), error = before, errors[-1]
        errors.append(error)
    return KSVD(D, X * scale, torch.stack(errors) * scale)


def released_ksvd(
    signals: Any, atoms: int = 128, nonzeros: int = 6, iterations: int = 10, *, generator: torch.Generator
) -> Tensor:
    """The dictionary (m, atoms) of the recipe behind the paper's patches: an approximate K-SVD in its plainest form.

    Atoms begin as random directions, whatever the signals are. An iteration codes all signals anew by OMP, then
    improves each atom for the signals that use it with a positive coefficient; an atom without any stays as it is. The
    error may grow, and atoms that nobody uses stay random.
    """
    Y = _checked(signals, atoms, nonzeros, iterations, generator)
    D = _unit(torch.randn(atoms, Y.shape[1], generator=generator, dtype=Y.dtype)).T.contiguous()
    for _ in range(iterations):
        D, _ = _improve_atoms(Y, D, omp(Y, D, nonzeros), positive=True)
    return D


def _checked(signals: Any, atoms: int, nonzeros: int, iterations: int, generator: torch.Generator) -> Tensor:
    Y = checks.as_tensor("signals", signals).detach().to(device="cpu", dtype=torch.float64)
    if Y.ndim != 2 or 0 in Y.shape:
        raise InputError(f"signals has shape {tuple(Y.shape)}; pass one signal per row, (N, m) with N, m >= 1")
    checks.require_finite("signals", Y)
    for name, value, low in (("atoms", atoms, 1), ("nonzeros", nonzeros, 1), ("iterations", iterations, 0)):
        require_whole(name, value, low)
    most = min(atoms, Y.shape[1])
    if nonzeros > most:
        raise InputError(f"nonzeros is {nonzeros}; {atoms} atoms of length {Y.shape[1]} allow at most {most}")
    if not isinstance(generator, torch.Generator) or generator.device.type != "cpu":
        raise InputError("generator must be a torch.Generator on the CPU, for example torch.Generator().manual_seed(0)")
    return Y


def _initial(Y: Rows, atoms: int, generator: torch.Generator) -> Tensor:
    """Nonzero signals drawn at random, scaled to unit length; random directions where there are too few."""
    filler = torch.randn(atoms, Y.shape[1], generator=generator, dtype=Y.dtype)
    order = torch.randperm(len(Y), generator=generator)
    chosen = order[(Y[order] != 0).any(1)][:atoms]
    return _unit(torch.cat([Y[chosen], filler[len(chosen) :]])).T.contiguous()


def _improve_atoms(Y: Rows, D: Tensor, X: Vectors, *, positive: bool = False) -> tuple[Tensor, Vectors]:
    """For every atom d with coefficients x and E = Y - (all other atoms): d = E'x / |E'x|, then x = E d.

    d is the best direction for x, x the best coefficients for d: the error cannot grow. Supports stay as they are.
    `positive`: only the signals whose coefficient is positive take part; the error of the others may grow.
    """
    D, X = D.clone(), X.clone()
    R = Y - X @ D.T
    for j in range(D.shape[1]):
        users = ((X[:, j] > 0) if positive else (X[:, j] != 0)).nonzero()[:, 0]
        x = X[users, j]
        E = torch.addr(R[users], x, D[:, j])
        direction = x @ E
        if not bool((direction != 0).any()):
            continue
        d = _unit(direction.unsqueeze(0))[0]
        x = E @ d
        if positive:
            others = (X[:, j] < 0).nonzero()[:, 0]  # they see the new direction too
            R[others] = torch.addr(R[others], X[others, j], D[:, j] - d)
        D[:, j], X[users, j], R[users] = d, x, torch.addr(E, x, d, alpha=-1)
    return D, X


def _recode(Y: Rows, D: Tensor, X: Vectors, nonzeros: int) -> Vectors:
    """New codes by OMP, where they are no worse than the old ones."""
    new = omp(Y, D, nonzeros)
    better = _squared_errors(Y, D, new) <= _squared_errors(Y, D, X)
    return torch.where(better.unsqueeze(1), new, X)


def _replace_idle(Y: Rows, D: Tensor, X: Vectors) -> tuple[Tensor, Vectors]:
    """Atoms that no signal uses, or that repeat an earlier one, become the worst represented signal.

    The coefficients of a repeating atom first move to the one it repeats. The signal that the atom becomes is then
    represented exactly, by one coefficient. An atom whose removal costs more than that gains stays where it is.
    """
    D, X = D.clone(), X.clone()
    norms = torch.linalg.vector_norm(Y, dim=1)
    errors = _squared_errors(Y, D, X)
    for j in range(D.shape[1]):
        merged, after = X, errors
        users = X[:, j].nonzero()[:, 0]
        if len(users):
            cosines = D[:, :j].T @ D[:, j]
            if j == 0 or float(cosines.abs().max()) <= DUPLICATE:
                continue
            twin = int(cosines.abs().argmax())
            merged = X.clone()
            merged[users, j] = 0.0
            merged[users, twin] = 0.0
            merged[users, twin] = (Y[users] - merged[users] @ D.T) @ D[:, twin]
            after = errors.clone()
            after[users] = _squared_errors(Y[users], D, merged[users])
        worst = int(after.argmax())
        gain = float(after[worst])
        if gain <= (NEGLIGIBLE * float(norms[worst])) ** 2 or float((after - errors).sum()) > gain:
            continue
        D[:, j] = _unit(Y[worst : worst + 1])[0]
        X, errors = merged.clone(), after.clone()
        X[worst] = 0.0
        X[worst, j] = norms[worst]
        errors[worst] = 0.0
    return D, X


def _squared_errors(Y: Rows, D: Tensor, X: Vectors) -> Scalars:
    return (Y - X @ D.T).square().sum(1)


def _unit(vectors: Rows) -> Rows:
    """Rows scaled to length one, at any scale."""
    vectors = vectors / vectors.abs().amax(1, keepdim=True)
    length: Tensor = torch.linalg.vector_norm(vectors, dim=1, keepdim=True)
    return vectors / length
