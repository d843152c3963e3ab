"""Functions of one number that lose no digits where their plain formula would."""

import torch
from torch import Tensor
from torch.nn.functional import softplus

NEAR = 0.25  # within this, differences are summed from their series
NOTHING = 80.0  # e^-80 is about the least float32
ROUNDS = 100  # of Newton's method for a number; it takes fewer than ten where it need not halve intervals


def log1pexp(u: Tensor) -> Tensor:
    """log(1 + e^u) for any u: torch's softplus is exact below its threshold, and u to rounding above 40."""
    return softplus(u, threshold=40.0)


def exp_above_line(d: Tensor) -> Tensor:
    """e^d - 1 - d >= 0."""
    near = d.clamp(-NEAR, NEAR)
    series = torch.zeros_like(d)
    for k in range(14, 1, -1):  # d^2/2 (1 + d/3 (1 + d/4 (...)))
        series = near / k * (1 + series)
    return torch.where(d.abs() <= NEAR, near * series, torch.expm1(d) - d)


def log_below_line(r: Tensor) -> Tensor:
    """r - log(1 + r) >= 0, r > -1; with s = r/(2 + r) it is r s - 2 (s^3/3 + s^5/5 + ...)."""
    near = r.clamp(-NEAR, NEAR)
    s = near / (2 + near)
    square, series = s.square(), torch.zeros_like(s)
    for k in range(21, 1, -2):
        series = square * (1 / k + series)
    far = torch.where(r.abs() <= NEAR, NEAR, r)  # its derivative is finite where it is not taken
    return torch.where(r.abs() <= NEAR, s * (near - 2 * series), far - torch.log1p(far))


def relative_entropy(q: Tensor, mu: Tensor, excess: Tensor, log_mu: Tensor) -> Tensor:
    """q log(q/mu) - q + mu >= 0 for q, mu >= 0; `excess` = mu - q and `log_mu` may be known better than mu."""
    positive = q > 0
    whole = torch.where(positive, q, 1.0)
    close = excess.abs() <= NEAR * whole
    near = whole * log_below_line(torch.where(close, excess / whole, 0.0))
    ratio = whole / torch.where(mu > 0, mu, 1.0)
    known = (mu > 0) & torch.isfinite(ratio) & (ratio > 0)
    log_ratio = torch.where(known, torch.where(known, ratio, 1.0).log(), whole.log() - log_mu)
    far = whole * log_ratio + excess
    return torch.where(positive, torch.where(close, near, far), mu)


def omega(s: Tensor) -> Tensor:
    """w > 0 with w + log w = s, by Newton's method; it underflows where e^s is nothing beside 1."""
    s = s.clamp(min=-NOTHING)
    w = torch.where(s > 1, s - s.clamp(min=1).log(), s.clamp(max=1).exp() / 2)
    for _ in range(ROUNDS):
        before, w = w, w * (1 + s - w.log()) / (1 + w)
        if bool(((w - before).abs() <= half_the_digits(s) * w).all()):
            break
    return w


def half_the_digits(like: Tensor) -> float:
    """A relative step of Newton's method after which no other one is needed: the next error is its square."""
    return float(torch.finfo(like.dtype).eps ** 0.5)


def clip(z: Tensor, low: float | Tensor, high: float | Tensor) -> Tensor:
    """z, or the nearer end of [low, high]."""
    if isinstance(low, Tensor) or isinstance(high, Tensor):
        ends = (torch.as_tensor(end, dtype=z.dtype, device=z.device) for end in (low, high))
        return torch.clamp(z, *ends)
    return torch.clamp(z, low, high)


def scale_range(v: Tensor, low: float | Tensor, high: float | Tensor) -> tuple[Tensor, Tensor]:
    """(B,) all s with low <= s v <= high in every row, where low <= 0 <= high."""
    low, high = (torch.as_tensor(end, dtype=v.dtype, device=v.device) for end in (low, high))
    safe = torch.where(v == 0, 1.0, v)
    least, most = torch.where(v > 0, low, high) / safe, torch.where(v > 0, high, low) / safe
    return torch.where(v == 0, -torch.inf, least).amax(1), torch.where(v == 0, torch.inf, most).amin(1)


def tiny(like: Tensor) -> float:
    return torch.finfo(like.dtype).tiny
