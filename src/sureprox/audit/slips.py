"""Slips in the text of the paper: what is printed, what is meant or true, and a number that shows the difference."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from sureprox.problems import lasso
from sureprox.sources.real import IONOSPHERE_SHAPE


@dataclass(frozen=True)
class Slip:
    name: str
    line: int  # of the LaTeX source
    printed: str
    true: str
    shown: str  # with numbers


def momentum() -> tuple[float, float]:
    """v_3 for B = 1/2 and the gradient maps G = 1, 0, 0: as printed, and with v where G_{k-1} is printed."""
    maps, B = (1.0, 0.0, 0.0), 0.5
    v, before, printed = 0.0, 0.0, 0.0
    for G in maps:
        v, printed, before = (1 - B) * G + B * v, (1 - B) * G + B * before, G
    return printed, v


def logistic_lipschitz() -> tuple[float, float]:
    """The printed bound |A'A/m|, and the largest |A' diag(h (1 - h)) A / m|, that at x = 0, where h (1 - h) = 1/4."""
    generator = torch.Generator().manual_seed(0)
    A = torch.randn(1000, 50, generator=generator, dtype=torch.float64)
    h = torch.sigmoid(A @ torch.zeros(50, dtype=torch.float64))
    printed = torch.linalg.matrix_norm(A.T @ A / 1000, 2)
    true = torch.linalg.matrix_norm(A.T @ ((h * (1 - h)).unsqueeze(1) * A) / 1000, 2)
    return float(printed), float(true)


def moved_solution() -> tuple[float, float, float, float]:
    """Minimisers and least values of F = (x - 3)^2/2 + |x| and of F(x + 1)."""
    problem = lasso(torch.ones(1, 1, 1, dtype=torch.float64), torch.full((1, 1), 3.0, dtype=torch.float64), 1.0)
    moved = problem.shifted(1.0)
    found = []
    for each in (problem, moved):  # with A = 1 one proximal gradient step of length 1 lands on the minimiser
        x = each.prox(-each.grad(torch.zeros(1, 1, dtype=torch.float64)), torch.ones(1, 1, dtype=torch.float64))
        found += [float(x), float(each.objective(x))]
    return found[0], found[2], found[1], found[3]


def feature() -> tuple[float, float]:
    """The third feature at x_0 for lam = 0.1, n = 500, x_0 > 0: divided entry by entry, and by the norm."""
    ub = torch.full((500,), 0.1, dtype=torch.float64)
    return float((ub / ub)[0]), float((ub / ub.norm())[0])


def slips() -> tuple[Slip, ...]:
    (short, long), (bound, largest), (third, normed) = momentum(), logistic_lipschitz(), feature()
    x, moved, value, moved_value = moved_solution()
    rows, columns = IONOSPHERE_SHAPE
    return (
        Slip(
            "Momentum",
            452,
            "v_k = (I - B_k) G_k + B_k G_{k-1} - b_2: a mean of the last two gradient maps",
            "(I - B_k) G_k + B_k v_{k-1}, which remembers all of them; the released code and the models here do that",
            f"B = 1/2, G = 1, 0, 0 gives v_3 = {short:g} as printed, {long:g} with v",
        ),
        Slip(
            "Size of Ionosphere",
            3329,
            "4,601 samples",
            f"{rows} samples of {columns} features; 4,601 are those of Spambase",
            f"the file has {rows} rows",
        ),
        Slip(
            "L for logistic",
            3132,
            "L = |A'A/m|, from h (1 - h) <= 1",
            "h (1 - h) <= 1/4, so that a quarter of it is a bound too, and is attained at x = 0",
            f"A 1000 x 50 normal: {bound:.5g} as printed, {largest:.5g} at x = 0, a factor {bound / largest:.5g}. "
            "Methods with step 1/L take steps four times too short on every logistic problem of the paper",
        ),
        Slip(
            "Identical optimality",
            523,
            '"both OOD and InD scenarios maintain an identical optimality on both objective and solution"',
            "of F(x + t) the least value is the same, the solution is x* - t, as the text says two sentences later",
            f"F = (x - 3)²/2 + |x|: x* = {x:g}, F* = {value:g}; F(x + 1): x* = {moved:g}, F* = {moved_value:g}",
        ),
        Slip(
            "Third feature",
            3106,
            "ub_k / ub_0, the quotient of two vectors",
            "ub_k / |ub_0|, as for the other two features and as the sentence before says",
            f"lam = 0.1, n = 500, x_0 > 0: {third:g} entry by entry, {normed:.5g} with the norm",
        ),
    )


def entries() -> Iterator[str]:
    """The section of the errata."""
    yield "## Slips in the text"
    yield "Nothing rests on these, except the step of the logistic experiments."
    yield "\n".join(
        f"- **{s.name}** (line {s.line}). Printed: {s.printed}. True: {s.true}. {s.shown}." for s in slips()
    )
