"""Tiny LASSO problems, exactly: the path of solutions is followed from lam_max down to lam (homotopy, LARS)."""

import torch
from torch import Tensor

from sureprox.base.types import Vectors
from sureprox.problems import Problem
from sureprox.problems.forms import Form, dense

WIDEST = 48  # coordinates: up to here the path is followed before a network would have taken its first steps
CHUNK = 2**20  # entries of normal matrices held at a time
APART = 1e-10  # two events closer than this, relatively, are the same one
SIGNS = torch.tensor([0.0, 1.0, -1.0])  # of a coordinate that has left S, joined it upwards, downwards


def has_short_path(form: Form) -> bool:
    """Whether `followed_path` applies and pays: least squares, an L1 penalty, few coordinates, a CPU."""
    return form.lasso and form.n <= WIDEST and form.device.type == "cpu"


@torch.no_grad()
def followed_path(problem: Problem) -> Vectors:
    """(B, n) in float64: the solution, or, where the path breaks off, zero. What it is worth, a certificate has to say.

    Let lam be tau times its value. For large tau the solution is zero; as tau falls to 1 it is, as long as neither its
    support S nor its signs s change,

        x_S = p_S - tau d_S,   G_SS p_S = c_S,   G_SS d_S = lam_S s_S,   G = A'A, c = A'b,

    and c - G x = q + tau h with q = c - G p, h = G d. A coordinate joins S at the largest tau below the present one
    with |q_j + tau h_j| = tau lam_j, and leaves it at that with x_j = 0. Every such event is one step. The path breaks
    off where A_S has no full rank, which shows in numbers that are not finite or in events without end, cut at 4 n.
    It has no beginning where lam is zero.
    """
    problem = problem.to(dtype=torch.float64)
    parts = torch.arange(problem.batch).split(max(1, CHUNK // problem.n**2))
    return problem.uncentred(torch.cat([_followed(problem.select(part)) for part in parts]))


def _followed(problem: Problem) -> Tensor:
    A, b = dense(problem)
    c = (A.mT @ b.unsqueeze(2)).squeeze(2)
    gram = (A.mT @ A).expand(len(c), -1, -1)
    lam = problem.r.subdiff(torch.zeros_like(c))[1]
    table, y, signs = gram, torch.zeros_like(c), torch.zeros_like(c)
    tau, j = (c.abs() / lam).max(1, keepdim=True)
    sign = c.gather(1, j).sign()
    done = (tau <= 1) | (lam <= 0).any(1, keepdim=True)
    for _ in range(4 * problem.n):
        if bool(done.all()):
            break
        joins = sign != 0
        pivot = table.diagonal(dim1=1, dim2=2).gather(1, j)
        table = _swept(table, j, pivot, joins)
        signs = signs.scatter(1, j, sign)
        inside = signs != 0
        at_zero, slope = (table @ torch.stack([c * inside, lam * signs], 2)).unbind(2)
        p, d, q = -at_zero, -slope, c - at_zero  # p and d hold on S, q and slope beyond
        leaves = torch.where(inside, p / d, 0.0)
        up, down = torch.where(inside, 0.0, q / (lam - slope)), torch.where(inside, 0.0, -q / (lam + slope))
        events = torch.cat([leaves, up, down], 1)
        events = torch.where((events > 0) & (events < tau * (1 - APART)), events, 0.0)  # NaN is no event
        tau, which = events.max(1, keepdim=True)
        y = torch.where((tau <= 1) & ~done, torch.where(inside, p - d, 0.0), y)
        done = done | (tau <= 1)
        j, sign = which % problem.n, SIGNS.to(c)[which // problem.n]
    return torch.where(torch.isfinite(y).all(1, keepdim=True), y, 0.0)


def _swept(table: Tensor, j: Tensor, pivot: Tensor, joins: Tensor) -> Tensor:
    """The table with coordinate j (B, 1) of each instance taken into S where it `joins` (B, 1), else out of it.

    The table T (B, n, n) holds T_SS = -G_SS^{-1}, T_RS = G_RS G_SS^{-1}, T_SR = its transpose and
    T_RR = G_RR - G_RS G_SS^{-1} G_SR, R being the rest (the sweep operator).
    """
    row = table.gather(1, j.unsqueeze(2).expand(-1, -1, table.shape[2]))  # (B, 1, n)
    column = table.gather(2, j.unsqueeze(1).expand(-1, table.shape[1], -1))  # (B, n, 1)
    by = (torch.where(joins, 1.0, -1.0) / pivot).unsqueeze(2)
    swept = torch.baddbmm(table, column / pivot.unsqueeze(2), row, alpha=-1)
    swept = swept.scatter(1, j.unsqueeze(2).expand_as(row), row * by)
    swept = swept.scatter(2, j.unsqueeze(1).expand_as(column), column * by)
    here = torch.nn.functional.one_hot(j.squeeze(1), table.shape[1]).bool()
    return torch.where(here.unsqueeze(1) & here.unsqueeze(2), (-1 / pivot).unsqueeze(2), swept)
