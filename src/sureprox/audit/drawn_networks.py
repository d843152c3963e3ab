"""Random networks that satisfy the paper's assumptions on all that the in-distribution run reads, and not elsewhere."""

from dataclasses import dataclass

import torch
from torch import Tensor

from sureprox.audit.math_l2o import Affine, MathL2O, MathState, Network, Sum, frobenius
from sureprox.audit.result import norm
from sureprox.audit.trajectory import Trajectory
from sureprox.problems import Problem


@dataclass(frozen=True)
class Kind:
    """What is drawn. history: "none", "variable" or "gradient"; smooth: r = 0 and Assumption 1."""

    n: int = 2
    steps: int = 3
    smooth: bool = False
    history: str = "none"
    loss: str = "quadratic"  # or "logistic"
    network: str = "affine"  # or "nonlinear", "aligned": affine of rank one along the first s', or "boxed"
    ood: str = "unrelated"  # or "same", "shifted"
    strength: float = 1.0  # of the networks
    far: float = 1.0  # |s_0|


def normal(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def history_of(kind: Kind) -> str:
    return "variable" if kind.history == "none" else kind.history


def assumed(kind: Kind, L: Tensor) -> tuple[Affine, Affine]:
    """The N1 and N2 that the assumption asks for: 1/2L and g/2L (smooth), 1/L and 0."""
    count, n = len(L), kind.n
    width = 2 * n if kind.history == "gradient" else 3 * n
    zero, slope = torch.zeros(count, n, dtype=L.dtype), torch.zeros(count, n, width, dtype=L.dtype)
    at = slope[:, 0]
    column = L.unsqueeze(1)
    if not kind.smooth:
        return Affine((1 / column).expand(-1, n), slope, at), Affine(zero, slope, at)
    reads = slope.clone()
    reads[:, :, n : 2 * n] = torch.eye(n, dtype=L.dtype) / (2 * column.unsqueeze(2))
    return Affine((0.5 / column).expand(-1, n), slope, at), Affine(zero, reads, at)


def deviating(
    kind: Kind, L: Tensor, z: Tensor, past: Tensor, reach: tuple[Tensor, Tensor], generator: torch.Generator
) -> tuple[MathL2O, dict[str, Network]]:
    """Networks that satisfy the assumption on everything in z (K, B, d) and past (K, B, 2n), and not elsewhere.

    `reach`: how far from them the first step out of distribution reads, so that the affine networks change by
    about `strength`, whatever the scale of the problem, and N1 often stays positive.
    """
    base = assumed(kind, L)
    column = L.reshape(-1, 1, 1)
    made: dict[str, Network] = {}
    names = ["N1", "N2"] if kind.history == "none" else ["N1", "N2", "N3", "N4"]
    for name in names:
        read = past if name == "N4" else z
        size = kind.strength / (column if name in ("N1", "N2") else 1)
        width = read.shape[-1]
        if kind.network == "nonlinear":
            extra: Network = Bump.drawn(read, size, kind.n, generator)
        else:
            far = reach[name == "N4"].reshape(-1, 1, 1)
            slope = size / far * normal(generator, len(L), kind.n, width) / kind.n**0.5
            extra = Affine(torch.zeros_like(read[0, :, : kind.n]), slope, read[0])
        made[name] = Sum(base[0], extra) if name == "N1" else Sum(base[1], extra) if name == "N2" else extra
    return model(kind, made), made


def model(kind: Kind, made: dict[str, Network]) -> MathL2O:
    return MathL2O(made["N1"], made["N2"], made.get("N3"), made.get("N4"), history_of(kind))


@dataclass(frozen=True)
class Bump:
    """cut(z) W2 tanh(W1 (z - centre)), cut = u^2/(1 + u^2), u = max(0, |z - centre|/radius - 1)."""

    W1: Tensor  # (B, h, d)
    W2: Tensor  # (B, n, h)
    centre: Tensor  # (B, d)
    radius: Tensor  # (B,)

    @staticmethod
    def drawn(read: Tensor, size: Tensor | float, n: int, generator: torch.Generator, hidden: int = 5) -> "Bump":
        """Zero on a ball that holds all of read (K, B, d)."""
        centre = read.mean(0)
        radius = 1.05 * norm(read - centre).amax(0) + 0.1
        batch, width = centre.shape
        W2 = size * normal(generator, batch, n, hidden) / (n * hidden) ** 0.5
        return Bump(normal(generator, batch, hidden, width), W2, centre, radius)

    def __call__(self, z: Tensor) -> Tensor:
        away = z - self.centre
        u = (norm(away) / self.radius - 1).clamp(min=0).unsqueeze(1)
        raw = torch.einsum("bnh,bh->bn", self.W2, torch.tanh(torch.einsum("bhd,bd->bh", self.W1, away)))
        return u.square() / (1 + u.square()) * raw

    def select(self, index: Tensor) -> "Bump":
        return Bump(self.W1[index], self.W2[index], self.centre[index], self.radius[index])

    @property
    def lipschitz(self) -> Tensor:
        """(B,): |W2|_F (|W1| + (3 sqrt(3)/8)/radius sqrt(h)) >= |J|_F on the whole space."""
        inner: Tensor = torch.linalg.matrix_norm(self.W1, ord=2)
        cut: Tensor = 3 * 3**0.5 / 8 / self.radius * self.W1.shape[1] ** 0.5
        return frobenius(self.W2) * (inner + cut)


@dataclass(frozen=True)
class Boxed:
    """A vector of the box of Lemma 1: c e, e >= 0, whose largest entry is a fraction of |g| cos(angle(e, g))/L."""

    e: Tensor  # (B, n)
    fraction: Tensor  # (B,)
    L: Tensor  # (B,)

    def __call__(self, z: Tensor) -> Tensor:
        n = self.e.shape[1]
        cosine = (z[:, n : 2 * n] * self.e).sum(1).clamp(min=0) / norm(self.e)
        return (self.fraction * cosine / self.L / self.e.amax(1)).unsqueeze(1) * self.e

    @property
    def lipschitz(self) -> Tensor:
        return self.fraction / self.L * norm(self.e) / self.e.amax(1)

    def select(self, index: Tensor) -> "Boxed":
        return Boxed(self.e[index], self.fraction[index], self.L[index])


def boxed(kind: Kind, L: Tensor, generator: torch.Generator) -> tuple[MathL2O, dict[str, Network]]:
    """N1 = lam 1 with lam in [0, 1/L], N2 in the box of Lemma 1. These do not satisfy Assumption 1."""
    count = len(L)
    base, _ = assumed(kind, L)
    lam, fraction = torch.rand(2, count, generator=generator, dtype=L.dtype) ** 0.5
    N1 = Affine((lam / L).unsqueeze(1).expand(-1, kind.n), base.slope, base.at)
    e = torch.rand(count, kind.n, generator=generator, dtype=L.dtype) ** 0.25  # often near 1, the worst direction
    made: dict[str, Network] = {"N1": N1, "N2": Boxed(e, fraction, L)}
    return model(kind, made), made


def along_first_step(
    kind: Kind,
    L: Tensor,
    problem: Problem,
    plain: MathL2O,
    first: MathState,
    quiet: Trajectory,
    generator: torch.Generator,
) -> tuple[MathL2O, dict[str, Network]]:
    """Affine networks of rank one along what they read at the first step: there |J s'| = |J|_F |s'|."""
    count, n = first.x.shape
    made: dict[str, Network] = {}

    def along(read: Tensor, at: Tensor, size: Tensor | float) -> Affine:
        way = read - at
        way = way / way.square().sum(1, keepdim=True).clamp(min=1e-300)  # so that |J s'| is the size, at any scale
        side = normal(generator, count, n)
        side = side / norm(side).unsqueeze(1)
        length = size * (normal(generator, count, 1, 1) / 2).exp()
        return Affine(torch.zeros_like(side), length * side.unsqueeze(2) * way.unsqueeze(1), at)

    base = assumed(kind, L)
    column = L.reshape(-1, 1, 1)
    if kind.history != "none":
        seen = plain.step(problem, first)
        made["N4"] = along(seen.history, quiet.history[0], kind.strength)
    probe = MathL2O(*base, None, made.get("N4"), history_of(kind)).step(problem, first)
    at = quiet.z[0, :, :-n]
    for name in ("N1", "N2") if kind.history == "none" else ("N1", "N2", "N3"):
        extra = along(probe.features, at, kind.strength / column if name != "N3" else kind.strength)
        made[name] = extra if name == "N3" else Sum(base[int(name[1]) - 1], extra)
    return model(kind, made), made
