"""Where a point lies on a problem, for each coordinate: what the features of Sure are made of, in two editions."""

from enum import StrEnum
from typing import NamedTuple

import torch
from torch import Tensor

from sureprox.base.types import Vectors


class Features(StrEnum):
    ABSOLUTE = "l1"  # made for r = lam |x|_1: where a penalty has no l1, three of them are constant
    GENERAL = "general"  # for any separable r: see `place_in_form`


SEEN = {Features.ABSOLUTE: (14, 8), Features.GENERAL: (16, 10)}  # features of an instance, and of a coordinate


class Place(NamedTuple):
    """Where -g lies with respect to the subdifferential [low, high] of r at x, for each coordinate."""

    u: Vectors  # g / (size + |g|), in [-1, 1]
    excess: Vectors  # (|g| - size) / size, cut to [-1, 1]: for L1, above 0 no point of the subdifferential is -g
    side: Vectors  # sign(low + high); for L1 the sign of x
    smooth: Tensor  # bool: low = high; for L1 where x is not zero
    slope: Vectors  # g + low, the derivative of F, where r is smooth; else 0
    size: Vectors  # what |g| is compared with; for L1 this is lam
    threshold: Vectors  # what G is compared with; for L1 this is lam
    bound: Tensor | None = None  # bool: at a bound of the domain of r; None for the features made for L1


class Form(NamedTuple):
    """What the general features ask of a problem besides the subdifferential, for each coordinate."""

    l2: Vectors  # the curvature of r
    pull: Vectors  # l2 x
    diagonal: Vectors  # of a bound of the Hessian of f, over L


def place(g: Vectors, low: Vectors, high: Vectors, least: float) -> Place:
    """The size is the largest finite bound of the subdifferential."""
    smooth, bound = low == high, size(low, high)
    return Place(
        u=g / (bound + g.abs()).clamp(min=least),
        excess=((g.abs() - bound) / bound.clamp(min=least)).clamp(-1, 1),
        side=torch.sign(low + high),
        smooth=smooth,
        slope=torch.where(smooth, g + low, 0.0),
        size=bound,
        threshold=bound,
    )


def place_in_form(g: Vectors, low: Vectors, high: Vectors, G: Vectors, form: Form, least: float) -> Place:
    """l2 x is a part of the gradient: g + l2 x takes the place of g.

    The largest finite bound of what the subdifferential is without l2 x, which is l1 |x|'s: l1 wherever x is. The size
    is that where it is positive, else the root mean square of G. At a bound, where one end of the
    subdifferential is infinite, `side` is -1 for the lower one and 1 for the upper one; elsewhere it is the sign of the
    slope of r without l2 x.
    """
    whole, smooth = g + form.pull, low == high
    at_low, at_high = torch.isinf(low), torch.isinf(high)
    rms = torch.sqrt(G.square().mean(1, keepdim=True) + least)
    low, high = low - form.pull, high - form.pull
    l1 = size(low, high)
    compared = torch.where(l1 > 0, l1, rms)
    ends = torch.where(at_low, -1.0, 1.0).to(g.dtype)
    return Place(
        u=whole / (compared + whole.abs()),
        excess=((whole.abs() - compared) / compared).clamp(-1, 1),
        side=torch.where(at_low | at_high, ends, torch.sign(low + high)),
        smooth=smooth,
        slope=torch.where(smooth, whole + low, 0.0),
        size=compared,
        threshold=l1,
        bound=at_low | at_high,
    )


def size(low: Vectors, high: Vectors) -> Vectors:
    """max(|low|, |high|) of those that are finite."""
    return torch.maximum(_finite_size(low), _finite_size(high))


def _finite_size(bound: Vectors) -> Vectors:
    """|bound|, 0 where it is infinite (the end of a domain); what is not a number stays so."""
    size = bound.abs()
    return torch.where(size == torch.inf, 0.0, size)
