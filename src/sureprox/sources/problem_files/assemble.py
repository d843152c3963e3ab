"""From checked arrays to a problem: a loss, a penalty, and where it starts."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from sureprox.base.errors import InputError
from sureprox.base.types import Scalars
from sureprox.problems import Problem, checks, losses, penalties
from sureprox.problems.forms import Shape, groups_of, shape_of
from sureprox.problems.operators import Operator
from sureprox.problems.smooth import LinearModel
from sureprox.sources.problem_files.asked import TARGETS, Asked, Kind, LossName, values, whole_numbers
from sureprox.sources.problem_files.intercepts import best_alone, freed
from sureprox.sources.problem_files.limits import Array

M = TypeVar("M", bound=LinearModel)

NO_LAM = "there is no lam; give --lam, or --lam-ratio for a share of the largest useful one"
BOXED = ("l2", "low", "high")  # what does not go with groups


@dataclass(frozen=True)
class Assembled:
    """A problem; `penalty` holds the numbers of r by the names that they have in a file."""

    problem: Problem
    loss: LossName
    kind: str
    x0: Tensor | None
    penalty: Mapping[str, Tensor] = field(default_factory=dict)


def assembled(
    arrays: Mapping[str, Any], asked: Asked, source: str, *, intercept: bool = False, combine: bool = False
) -> Assembled:
    """`arrays`: A, an array or an operator, and others by their keys.

    `intercept`: the last coordinate is not penalised. `combine`: several right-hand sides and another number of values
    of lam make all combinations; for arrays that are part of a larger set this would be a mistake.
    """
    loss, target = _decided(arrays, asked, source)
    try:
        return _assembled(arrays, asked, loss, target, intercept, combine)
    except InputError as error:
        raise InputError(f"{source}: {error}") from None


def _decided(arrays: Mapping[str, Any], asked: Asked, source: str) -> tuple[LossName, str]:
    """The loss, and the key of its right-hand side."""
    loss = asked.named_loss
    if loss is None:
        if "b" in arrays and "y" in arrays:
            raise InputError(f"{source} holds both b and y; choose --kind lasso or --kind logistic")
        loss = LossName.LOGISTIC if "y" in arrays else LossName.SQUARES
    held = [key for key in TARGETS[loss] if key in arrays]
    if len(held) > 1:
        raise InputError(f"{source} holds both b and y; for the loss {loss.value} leave one of them out")
    if not held:
        key = TARGETS[loss][0]
        name = Kind.LASSO if loss is LossName.SQUARES else loss
        raise InputError(f"{source} has no {key!r}; {name.value} problems need A, {key}, lam")
    return loss, held[0]


def _assembled(
    arrays: Mapping[str, Any], asked: Asked, loss: LossName, target: str, intercept: bool, combine: bool
) -> Assembled:
    A = arrays["A"]
    matrix: Tensor | Operator
    if isinstance(A, Operator):
        held = torch.float64 if A.like is None else A.like.dtype
        wanted = asked.dtype or held
        matrix = A.to(dtype=wanted)
    else:
        wanted = asked.dtype or (torch.float32 if A.dtype == np.float32 else torch.float64)
        if A.ndim not in (2, 3):
            raise InputError(f"A has shape {A.shape}; it must be (m, n), or (B, m, n) for a matrix of each problem")
        matrix = torch.tensor(A).to(wanted)
    m = matrix.shape[-2]

    def row(key: str, length: int) -> Tensor | None:
        return None if key not in arrays else torch.tensor(_row(arrays[key], length)).to(wanted)

    right = row(target, m)
    f = _loss(loss, matrix, right, asked, row("weights", m), row("offset", m))
    if intercept and loss is LossName.SOFTMAX:
        raise InputError("an intercept does not go with softmax; leave out --intercept")
    f, asked, grid = _for_each_target(f, asked) if combine else (f, asked, None)
    f, r, penalty = _with_penalty(f, arrays, asked, wanted, intercept)
    problem = Problem(f, r, grid=grid)
    start = row("x0", problem.n)
    if start is not None:
        problem.start(start)  # checks it
    return Assembled(problem, loss, _kind(loss, penalty), start, penalty)


def _loss(
    loss: LossName, A: Any, y: Tensor | None, asked: Asked, weights: Tensor | None, offset: Tensor | None
) -> LinearModel:
    rows: dict[str, Any] = {"weights": weights, "offset": offset}
    given = {name: value for name in ("delta", "level", "smoothing", "classes") if (value := getattr(asked, name))}
    for name in given:
        rows[name] = given[name]
    build: dict[LossName, Callable[..., LinearModel]] = {
        LossName.SQUARES: losses.LeastSquares,
        LossName.LOGISTIC: losses.Logistic,
        LossName.HUBER: losses.Huber,
        LossName.SQUARED_HINGE: losses.SquaredHinge,
        LossName.POISSON: losses.Poisson,
        LossName.QUANTILE: losses.Quantile,
        LossName.SOFTMAX: losses.Softmax,
    }
    return build[loss](A, y, **rows)


def _with_penalty(
    f: LinearModel, arrays: Mapping[str, Any], asked: Asked, wanted: torch.dtype, intercept: bool
) -> tuple[LinearModel, penalties.Penalty, dict[str, Tensor]]:
    """f for as many instances as the numbers of r ask for, r, and these numbers."""

    def made(lam: Tensor, sizes: Mapping[str, Tensor], name: str = "lam") -> penalties.Penalty:
        r = _penalty(f, lam, sizes, groups, arrays, name)
        return freed(r, f.shape[1]) if intercept else r

    groups = asked.groups if asked.groups is not None else arrays.get("groups")
    main, extra = _weights_of(arrays, asked, grouped=groups is not None)
    parts = {"low": arrays.get("low"), "high": arrays.get("high")}
    if asked.nonnegative:
        if parts["low"] is not None:
            raise InputError("nonnegative is asked for, and low is given too; leave one of them out")
        parts["low"] = np.array(0.0)
    sizes = {name: _fitting(name, value, f) for name, value in parts.items() if value is not None}
    l2 = asked.l2 if asked.l2 is not None else arrays.get("l2")
    if l2 is not None:
        sizes["l2"] = _fitting("l2", l2, f, per_problem=asked.l2 is not None)
    if extra is not None:
        sizes["l1"] = _fitting("l1", extra, f, per_problem=True)
    f = _repeated(f, *sizes.values())
    if asked.lam_ratio is not None:
        zero = Problem(f, made(torch.zeros((), dtype=f.like.dtype), sizes))
        lam = _share_of_largest(zero, asked.lam_ratio, best_alone(f) if intercept else None)
    elif main is not None:
        lam = _fitting(main[0], main[1], f, per_problem=main[0] == "lam" or asked.l1 is not None)
    elif groups is not None:
        raise InputError("there is no lam, the weight of the groups; give --lam, or --lam-ratio")
    elif sizes:
        lam = torch.zeros((), dtype=torch.float64)
    else:
        raise InputError(NO_LAM)
    f = _repeated(f, lam)
    name = "l1" if groups is None and (main is None or main[0] == "l1") and asked.lam_ratio is None else "lam"
    r = made(lam.to(wanted), {key: size.to(wanted) for key, size in sizes.items()}, name)
    numbers = {("l1" if groups is None else "lam"): lam, **sizes}
    if groups is not None:
        numbers["groups"] = torch.as_tensor(whole_numbers("groups", groups).reshape(-1))
    kept = {key: value for key, value in numbers.items() if key in ("lam", "groups") or bool((value != 0).any())}
    kept |= {key: sizes[key] for key in ("low", "high") if key in sizes}
    return f, r, kept or numbers


def _weights_of(arrays: Mapping[str, Any], asked: Asked, *, grouped: bool) -> tuple[tuple[str, Any] | None, Any]:
    """The main weight with its name, if it is given as a number, and l1 beside the groups."""
    if grouped:
        lam = asked.lam if asked.lam is not None else arrays.get("lam")
        return (None if lam is None else ("lam", lam)), (asked.l1 if asked.l1 is not None else arrays.get("l1"))
    for name in ("lam", "l1"):
        if getattr(asked, name) is not None:
            return (name, getattr(asked, name)), None
    held = [name for name in ("lam", "l1") if name in arrays]
    if len(held) > 1 and asked.lam_ratio is None:
        raise InputError("l1 and lam are both there, two names of one number; leave one of them out")
    return (None if not held else (held[0], arrays[held[0]])), None


def _penalty(
    f: LinearModel,
    lam: Tensor,
    sizes: Mapping[str, Tensor],
    groups: Any,
    arrays: Mapping[str, Any],
    name: str = "lam",
) -> penalties.Penalty:
    """lam: (), (B, 1), (1, n) or (B, n), as all `sizes`."""
    if groups is not None:
        for other in BOXED:
            if other in sizes:
                what = "bounds" if other != "l2" else "l2"
                raise InputError(f"groups do not go with {what}; leave one of them out")
        labels = whole_numbers("groups", groups).reshape(-1)
        weights = arrays.get("group_weights")
        shares = None if weights is None else torch.tensor(np.ravel(weights)).to(lam.dtype)
        size = checks.weight(lam.reshape(-1) if lam.ndim else lam, f.shape[0], f.like, name)
        if "l1" not in sizes:
            return penalties.GroupL2(labels, size, shares)
        l1 = sizes["l1"]
        beside = checks.weight(l1.reshape(-1) if l1.ndim else l1, f.shape[0], f.like, "l1")
        return penalties.SparseGroup(labels, beside, size, shares)
    if "group_weights" in arrays:
        raise InputError("there are group_weights and no groups; give groups too, or leave them out")
    if not sizes and (lam.ndim == 0 or lam.shape[1] == 1):
        return penalties.L1(checks.weight(lam.reshape(-1) if lam.ndim else lam, f.shape[0], f.like, name))
    return penalties.Separable(lam if bool((lam != 0).any()) else 0.0, **sizes)


def _fitting(name: str, given: Any, f: LinearModel, *, per_problem: bool = False) -> Tensor:
    """As (), (B, 1), (1, n) or (B, n). Several numbers are one for each problem, or each coordinate if there are n."""
    batch, n = f.shape
    value = values(name, given)
    if value.numel() == max(value.shape, default=1):  # MATLAB knows no numbers and no vectors
        value = value.reshape(-1) if value.numel() > 1 else value.reshape(())
    if value.ndim == 0 or value.ndim > 1:
        return value
    if not per_problem and len(value) == n != batch:
        return value.unsqueeze(0)
    if not per_problem and len(value) == n == batch > 1:
        raise InputError(f"{name} has {n} numbers, and there are {n} problems of {n} coordinates; give it as (B, n)")
    return value.unsqueeze(1)


def _repeated(f: LinearModel, *sizes: Tensor) -> LinearModel:
    """One right-hand side and one A, for as many problems as the numbers ask for."""
    count = max((len(size) for size in sizes if size.ndim == 2), default=1)
    return f.repeated(count) if count > 1 and f.shape[0] == 1 and f.map.shared else f


def _for_each_target(f: M, asked: Asked) -> tuple[M, Asked, tuple[int, int] | None]:
    """One A, R right-hand sides and K values of lam, K != R: all R x K problems, K for each right-hand side."""
    R = f.shape[0]
    name = next((name for name in ("lam_ratio", "lam", "l1") if getattr(asked, name) is not None), None)
    given = None if name is None else values(name, getattr(asked, name))
    if name is None or given is None or given.ndim != 1 or len(given) in (1, R) or R == 1 or not f.map.shared:
        return f, asked, None
    index = torch.arange(R).repeat_interleave(len(given))
    return f.select(index), replace(asked, **dict[str, Any]({name: np.tile(given.numpy(), R)})), (R, len(given))


def _share_of_largest(unweighted: Problem, given: Any, at: Tensor | None) -> Tensor:
    """lam as a share of the smallest one with which `at`, zero by default, is the solution, (B, 1)."""
    shares = values("lam_ratio", given)
    largest = _largest(unweighted, at)
    if 1 not in (shares.numel(), len(largest)) and shares.numel() != len(largest):
        raise InputError(f"there are {shares.numel()} values of lam_ratio for {len(largest)} problems; give one")
    return (shares * largest).reshape(-1, 1)


def _largest(problem: Problem, at: Tensor | None) -> Scalars:
    """For a penalty whose lam is 0: how far this point is from a solution, in the norm that lam weighs."""
    x = torch.zeros(problem.batch, problem.n, dtype=problem.dtype) if at is None else at
    if not bool(torch.isfinite(problem.r.value(x)).all()):
        raise InputError("zero lies outside of the bounds, so that no lam makes it the solution; give lam")
    if shape_of(problem) is Shape.GROUPS:
        r = groups_of(problem)
        missed = r.norms(r.distance(x, problem.grad(x)))
        return torch.where(r.weights > 0, missed / r.weights.clamp(min=torch.finfo(missed.dtype).tiny), 0.0).amax(1)
    return problem.kkt_residual(x)


def _kind(loss: LossName, penalty: Mapping[str, Tensor]) -> str:
    """lasso and logistic for these, else the parts: "huber + l1 + l2"."""
    if set(penalty) <= {"l1"} and loss in (LossName.SQUARES, LossName.LOGISTIC):
        return Kind.LASSO if loss is LossName.SQUARES else Kind.LOGISTIC
    named = [key for key in ("l1", "l2", "groups") if key in penalty and bool((penalty[key] != 0).any())]
    if "groups" in penalty and "groups" not in named:
        named.append("groups")
    if "low" in penalty or "high" in penalty:
        low = penalty.get("low")
        alone = low is not None and "high" not in penalty and not bool((low != 0).any())
        named.append("nonnegative" if alone else "bounds")
    return " + ".join([loss.value, *named])


def _row(values: Array, length: int) -> Array:
    """A single column (length, 1), as MATLAB knows no vectors, as (length,)."""
    return values[:, 0] if values.shape == (length, 1) and length > 1 else values
