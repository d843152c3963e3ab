"""Cross-validated errors of least squares: (responses x folds x alphas) in batches that share one matrix."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from sureprox.base.errors import InputError
from sureprox.kernels.runtime.threads import one_thread
from sureprox.problems import LeastSquares, Problem, WeightedLeastSquares, Zero
from sureprox.problems.forms import along, form_of, scaled
from sureprox.problems.smooth import LinearModel
from sureprox.sklearn import linear
from sureprox.sklearn.engine import Fitted
from sureprox.sklearn.linear import Design
from sureprox.solve.at_once import solved_at_once
from sureprox.solve.plan import at_once, step_size

LARGEST = 2**24  # entries of all gathered columns, beyond which Newton steps cost more than they save
ROOM = {"cpu": 2**29, "cuda": 2**33}  # bytes for the vectors of a batch
VECTORS = 12  # of n and of m numbers that a solve holds for each instance, about
BLOCK = 16  # alphas of many responses that are solved together, the next ones from their solutions

Solver = Callable[..., Fitted]  # of a problem, with options of `engine.fitted`


@dataclass(frozen=True)
class Folds:
    """Weights (F, m) of the rows in training and in testing: zero where a row is left out."""

    train: Tensor
    test: Tensor

    def __len__(self) -> int:
        return len(self.train)


def folds_of(splits: Any, weights: Tensor) -> Folds:
    """Of (train, test) pairs of row numbers."""
    train: list[Tensor] = []
    test: list[Tensor] = []
    for pair in splits:
        for rows, kept in zip(pair, (train, test), strict=True):
            inside = torch.zeros_like(weights, dtype=torch.bool)
            inside[torch.as_tensor(np.asarray(rows), device=weights.device)] = True
            kept.append(torch.where(inside, weights, 0.0))
    folds = Folds(torch.stack(train), torch.stack(test))
    if not bool((folds.train.sum(1) > 0).all() and (folds.test.sum(1) > 0).all()):
        raise InputError("some fold has no row of positive weight to train or to test on; use fewer folds")
    return folds


@dataclass(frozen=True)
class FoldErrors:
    """The mean squared errors on the rows that each fold leaves out.

    made, targets (m, R) and alphas (R, K), falling: the data, and the sizes of the penalty for each response.
    """

    made: Design
    targets: Tensor
    folds: Folds
    centre: bool
    ratio: float  # l1_ratio
    positive: bool
    solved: Solver
    engine: str
    path_tol: float | None  # of chains of working sets; None where an optimizer, or few iterations, are asked for

    def of(self, alphas: Tensor) -> Tensor:
        """(R, F, K)."""
        with one_thread():  # what is left to PyTorch is small beside the chains
            chained = self._chained(alphas)
        return self._together(alphas) if chained is None else chained

    def _chained(self, alphas: Tensor) -> Tensor | None:
        """By working sets, each alpha from the solution of the one before; None where that is not for the problems.

        The rows of a fold, centred and weighted, or their triangular factor, are its A and b. One response: all folds
        are one batch, their rows filled up with zeros. Many: those of a fold share its matrix.
        """
        A, (R, K) = self.made.A, alphas.shape
        if self.path_tol is None or not isinstance(A, Tensor) or A.device.type != "cpu":
            return None
        own = [self._rows(A, train) for train in self.folds.train]
        if R == 1:
            rows, targets = (pad_sequence(list(each), batch_first=True) for each in zip(*own, strict=True))
            own = [(rows, targets)]
        size, errors = self.folds.train.sum(1), alphas.new_empty(R, len(self.folds), K)
        for fold, (rows, targets) in enumerate(own):
            folds = slice(None) if R == 1 else slice(fold, fold + 1)
            some = max(1, ROOM["cpu"] // (8 * VECTORS * (rows.shape[-1] + rows.shape[-2]) * K))
            for these in parts(R, some):
                b = (targets[:, :, 0] if R == 1 else targets[:, these].mT).contiguous()
                one = torch.ones_like(b[:, 0])
                penalty = self.made.penalty(self.ratio * one, (1 - self.ratio) * one, self.positive)
                problem = Problem(LeastSquares(rows, b), penalty)
                operations = at_once(form_of(problem), self.engine)
                if operations.solved is None:
                    return None
                scales = size[folds].unsqueeze(1) * alphas[these]
                found = solved_at_once(along(problem, scales), operations, self.path_tol, 1.0, chain=K)
                x = found.solution.x
                if len(found.left):
                    few = scaled(problem.select(found.left // K), scales.reshape(-1)[found.left])
                    x = x.index_copy(0, found.left, self.solved(few, floor=1.0, x0=x[found.left]).x)
                made = self._errors(x, self.targets[:, these], folds)
                errors[these, folds] = made.unflatten(0, (len(alphas[these]), -1))
        return errors

    def _rows(self, A: Tensor, train: Tensor) -> tuple[Tensor, Tensor]:
        """A and b (m, R) of a fold by its `train` (m,)."""
        inside = train.nonzero()[:, 0]
        weights, rows = train[inside], [A[inside], self.targets[inside]]
        for each in rows:  # kernels want matrices that lie row by row
            if self.centre:
                each -= linear.average(each, weights)
            if bool((weights != 1).any()):
                each *= weights.sqrt().unsqueeze(1)
        return linear.compressed(rows[0], rows[1])

    def _together(self, alphas: Tensor) -> Tensor:
        """By the optimizer, in batches that share one matrix."""
        F, (R, K) = len(self.folds), alphas.shape
        A, b, weights = shared_rows(self.made.A, self.targets, self.folds.train, self.centre)
        inside = self.centre and A is self.made.A  # triangular factors are centred already
        whole = Problem(WeightedLeastSquares(A, b[:1].expand(F, -1), weights, inside), Zero())
        step = step_size(whole, self.engine)
        room = room_for(whole)
        block = max(1, min(K if R == 1 else BLOCK, room // F))
        errors = alphas.new_empty(R, F, K)
        for some in parts(R, max(1, room // (F * block))):
            r = len(alphas[some])
            f = WeightedLeastSquares(A, b[some].repeat_interleave(F, 0), weights.repeat(r, 1), inside)
            x = None
            for these in parts(K, block):
                x = self._solutions(f, alphas[some, these], step, x)
                errors[some, :, these] = self._errors(x, self.targets[:, some], slice(None)).reshape(r, F, -1)
        return errors

    def _solutions(self, f: WeightedLeastSquares, alphas: Tensor, step: Tensor, last: Tensor | None) -> Tensor:
        """(r F k, n) for the alphas (r, k); `last`: those of the alphas before, whose smallest is the start."""
        (r, k), F = alphas.shape, len(self.folds)
        each = torch.arange(r * F, device=alphas.device).repeat_interleave(k)
        size = (self.folds.train.sum(1).view(1, F, 1) * alphas.unsqueeze(1)).flatten()
        penalty = self.made.penalty(self.ratio * size, (1 - self.ratio) * size, self.positive)
        found = self.solved(
            Problem(f.select(each), penalty),
            polish=len(each) * f.m * min(f.m, f.n) <= LARGEST,
            step_size=step[each % F],
            floor=1.0,
            check_every=25,
            x0=None if last is None else last.reshape(r * F, -1, f.n)[:, -1][each],
        )
        return found.x

    def _errors(self, x: Tensor, targets: Tensor, folds: slice) -> Tensor:
        """(r F, k) from the solutions x (r F k, n) for these folds."""
        train, test = (rows[folds] / rows[folds].sum(1, keepdim=True) for rows in (self.folds.train, self.folds.test))
        each = x.reshape(targets.shape[1], len(train), -1, x.shape[1])
        made = [self._error(each[:, f], targets, train[f], test[f]) for f in range(len(train))]
        return torch.stack(made, 1).flatten(0, 1)

    def _error(self, x: Tensor, targets: Tensor, train: Tensor, test: Tensor) -> Tensor:
        """(r, k) from x (r, k, n) for one fold; of a dense A only the rows in `test` are read."""
        A = self.made.A
        if isinstance(A, Tensor):
            rows = test.nonzero()[:, 0]
            seen, wanted = A[rows], targets[rows]
            if self.centre:
                seen, wanted = seen - train @ A, wanted - train @ targets
            residual, test = wanted.mT.unsqueeze(1) - x @ seen.mT, test[rows]
        else:
            fitted = self.made.map.forward(x.flatten(0, 1)).unflatten(0, x.shape[:2])
            residual = targets.mT.unsqueeze(1) - fitted
            if self.centre:
                residual = residual - (train * residual).sum(2, keepdim=True)
        return (test * residual.square()).sum(2)


def room_for(problem: Problem) -> int:
    """How many instances like those of this problem are solved together."""
    assert isinstance(problem.f, LinearModel)
    return max(1, ROOM[problem.device.type] // (8 * VECTORS * (problem.n + problem.f.m)))


def parts(count: int, size: int) -> Iterator[slice]:
    """0, ..., count - 1 in pieces of `size`."""
    return (slice(start, min(start + size, count)) for start in range(0, count, size))


def shared_rows(A: Any, targets: Tensor, train: Tensor, centre: bool) -> tuple[Any, Tensor, Tensor]:
    """(A, b (R, m), weights (F, m)) that serve all folds: the rows themselves, or, where these are many, those of
    triangular factors.

    The factor of a fold, centred already, has n + R rows; the factors of all folds stand below each other, and the
    weights of a fold are one on its own and zero on the others.
    """
    (m, n), (F, R) = A.shape, (len(train), targets.shape[1])
    if not isinstance(A, Tensor) or m <= F * (n + R):
        return A, targets.mT.contiguous(), train
    made = []
    for weights in train:
        rows = torch.cat([A, targets], 1)
        rows = linear.weighted_rows(rows - linear.average(rows, weights) if centre else rows, weights)
        made.append(torch.linalg.qr(rows, mode="r").R)
    factors = torch.cat(made)
    own = torch.eye(F, dtype=A.dtype, device=A.device).repeat_interleave(n + R, dim=1)
    return factors[:, :n].contiguous(), factors[:, n:].mT.contiguous(), own
