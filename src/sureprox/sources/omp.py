"""Orthogonal matching pursuit: sparse codes for a whole batch of signals at once."""

import torch
from torch import Tensor

from sureprox.base.types import Rows, Vectors

NEGLIGIBLE = 1e-10  # of a signal's norm: a residual this small is rounding
INDEPENDENT = 1e-6  # of an atom outside the span of the chosen ones: less, and its coefficient would be noise


def omp(signals: Rows, dictionary: Tensor, nonzeros: int) -> Vectors:
    """Codes x (B, atoms) with at most `nonzeros` entries each and |y - D x| small; D (m, atoms) has unit columns.

    Greedy: take the atom with the largest |d'r|, r = y - D x; refit all coefficients by least squares; repeat. The
    chosen atoms are kept as D_S = Q U (Gram-Schmidt, twice), so that r only loses its part along the newest q and the
    coefficients solve U x_S = Q'y at the end. A signal is done early once its residual is negligible or no atom left
    brings a new direction.
    """
    count, m = signals.shape
    # A signal far smaller or larger than its neighbours must not under- or overflow.
    size = signals.abs().amax(1, keepdim=True)
    size = torch.where(size > 0, size, 1.0)
    residual = signals / size
    floor = NEGLIGIBLE * torch.linalg.vector_norm(residual, dim=1)
    Q = residual.new_zeros(count, nonzeros, m)
    U = torch.eye(nonzeros, dtype=residual.dtype).repeat(count, 1, 1)
    projections = residual.new_zeros(count, nonzeros, 1)
    support = torch.zeros(count, nonzeros, dtype=torch.long)
    usable = torch.ones(count, dictionary.shape[1], dtype=torch.bool)
    everyone = torch.arange(count)
    for t in range(nonzeros):
        best = (residual @ dictionary).abs().masked_fill(~usable, -1.0).argmax(1)
        atoms = dictionary.T[best]
        q, along = _outside(atoms, Q)
        length = torch.linalg.vector_norm(q, dim=1)
        active = (torch.linalg.vector_norm(residual, dim=1) > floor) & (length > INDEPENDENT)
        q = torch.where(active.unsqueeze(1), q / length.clamp(min=INDEPENDENT).unsqueeze(1), 0.0)
        part = (q * residual).sum(1, keepdim=True)
        residual = residual - part * q
        usable[everyone, best] = False
        # An inactive step leaves a row and a column of the identity in U and a zero on the right: coefficient 0.
        U[:, :, t] = torch.where(active.unsqueeze(1), along, U[:, :, t])
        U[:, t, t] = torch.where(active, length, 1.0)
        Q[:, t], projections[:, t], support[:, t] = q, part, best
    coefficients = torch.linalg.solve_triangular(U, projections, upper=True).squeeze(2)
    return residual.new_zeros(count, dictionary.shape[1]).scatter(1, support, coefficients * size)


def _outside(atoms: Rows, Q: Tensor) -> tuple[Rows, Tensor]:
    """The part of each atom orthogonal to the rows of its Q (B, k, m), and its coefficients (B, k) along them."""
    along = torch.zeros(Q.shape[:2], dtype=Q.dtype)
    for _ in range(2):  # the second time removes what rounding has left of the first
        more = torch.bmm(Q, atoms.unsqueeze(2))
        atoms = atoms - torch.bmm(Q.mT, more).squeeze(2)
        along = along + more.squeeze(2)
    return atoms, along
