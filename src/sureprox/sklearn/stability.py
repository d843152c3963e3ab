"""`StabilitySelection`: hundreds of resampled, reweighted lassos as few batches, with proved supports."""

from typing import Any, NamedTuple, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.feature_selection import SelectorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from sureprox.base.errors import InputError
from sureprox.problems import L1, LeastSquares, Problem
from sureprox.problems.forms import along, form_of
from sureprox.sklearn.base import parameters
from sureprox.sklearn.compat import validate_data
from sureprox.sklearn.engine import LEAST_TOL, Array, array, checked, chosen_device, number, tensor
from sureprox.sklearn.folds import parts
from sureprox.sklearn.tensors import as_array, tensors_too
from sureprox.solve.at_once import solved_at_once
from sureprox.solve.plan import at_once
from sureprox.solve.solve import solve
from sureprox.support.screening import proved

FLOOR = 1e-6  # of F at zero: gaps are judged against no less
ROOM = 2**28  # bytes for the samples and solutions of a batch


class Found(NamedTuple):
    """Of S halves and K alphas: what is selected and what is proved to be zero (S, K, n); proved supports (S, K)."""

    chosen: Tensor
    inactive: Tensor
    known: Tensor


class Counts(NamedTuple):
    """(K, n) for each alpha and feature: how many samples select it, and no less and no more than which is proved."""

    chosen: Tensor
    least: Tensor
    most: Tensor

    def plus(self, other: "Counts") -> "Counts":
        return Counts(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))


@parameters
class StabilitySelection(SelectorMixin, BaseEstimator):
    """How often the lasso selects a feature on random halves of the data (Meinshausen and Buehlmann, 2010).

    For each of `n_samples` halves H of the rows and each alpha,

        min_{w,c} 1/(2h) sum_{i in H} (y_i - x_i'w - c)^2 + alpha sum_j |w_j| / v_j,   v_j = 1 or `weakness`, at random.

    The halves come in pairs that have no row in common (Shah and Samworth, 2013). The score of a feature is the largest
    share, over the alphas, of the halves on which w_j is not zero; a score of at least `threshold` selects it. All
    lassos are solved as batches in float64. Whether w_j is zero is proved for each of them by its duality gap where
    `Solution.inactive` and `Solution.support_certified` can; so each score has bounds that are proved, and a selection
    is `certified_` where both are on the same side of the threshold.

    n_samples : how many halves, an even number.
    alphas : how many alphas the path has, or the alphas themselves.
    eps : alpha_min / alpha_max, where alpha_max is the smallest alpha with w = 0 on all rows, for v = 1.
    weakness : in (0, 1]; 1 is no reweighting. The smaller, the less one of two similar features hides the other.
    threshold : in (1/2, 1].
    tol : largest duality gap, relative to the objective. Smaller values prove more supports.
    random_state, device, engine : as elsewhere in scikit-learn and in `ElasticNet`.

    alphas_ (K,), stability_path_ (K, n), scores_, scores_least_, scores_most_ and certified_ (n,); proved_ is the share
    of lassos whose support is proved; false_selections_ the bound q^2 / ((2 threshold - 1) n) on the expected number of
    features selected wrongly, q being how many the path selects on average, under the assumptions of the theorem.
    """

    n_samples: Any = 100
    alphas: Any = 20
    eps: Any = 0.1
    weakness: Any = 0.5
    threshold: Any = 0.75
    tol: Any = 1e-10
    random_state: Any = None
    device: Any = None
    engine: Any = "auto"

    @tensors_too
    def fit(self, X: Any, y: Any) -> Self:
        X, y = validate_data(self, X, y, y_numeric=True, dtype=np.float64, ensure_min_samples=4)
        checked(1, self.tol)
        samples = self._count()
        threshold, weakness = number("threshold", self.threshold, 0.5, 1), number("weakness", self.weakness, 0, 1)
        if threshold == 0.5 or weakness == 0:
            raise InputError(f"threshold is {threshold:g} and weakness {weakness:g}; they must be > 0.5 and > 0")
        device, random = chosen_device(self.device), check_random_state(self.random_state)
        half, n = len(y) // 2, X.shape[1]
        orders = np.stack([random.permutation(len(y)) for _ in range(samples // 2)])
        rows = torch.as_tensor(np.stack([orders[:, :half], orders[:, half : 2 * half]], 1).reshape(samples, half))
        factors = torch.as_tensor(np.where(random.rand(samples, n) < 0.5, 1.0, weakness))
        A, b = tensor(X, device), tensor(y, device)
        alphas = self._grid(A - A.mean(0), b - b.mean())
        K = len(alphas)
        each = 8 * (half * n + 6 * K * n)
        counts, selected, proofs = Counts(*torch.zeros(3, K, n, dtype=torch.float64)), 0.0, 0.0
        for some in parts(samples, max(1, ROOM // each)):
            found = self._solved(self._lassos(A, b, rows[some].to(device), factors[some].to(device)), half * alphas)
            known = found.known.unsqueeze(2)
            least, most = known & found.chosen, ~(found.inactive | (known & ~found.chosen))
            counts = counts.plus(Counts(*(of.double().sum(0) for of in (found.chosen, least, most))))
            selected += float(found.chosen.any(1).sum())
            proofs += float(known.sum())
        self.alphas_ = array(alphas)
        self.stability_path_ = array(counts.chosen / samples)
        self.scores_, self.scores_least_, self.scores_most_ = (array(of.amax(0) / samples) for of in counts)
        self.certified_ = (self.scores_least_ >= threshold) | (self.scores_most_ < threshold)
        self.proved_ = proofs / (samples * K)
        self.false_selections_ = (selected / samples) ** 2 / ((2 * threshold - 1) * n)
        return self

    def _count(self) -> int:
        count = self.n_samples
        if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 2 or count % 2:
            raise InputError(f"n_samples is {count!r}; it must be an even number >= 2, as halves come in pairs")
        return int(count)

    def _grid(self, A: Tensor, b: Tensor) -> Tensor:
        """(K,), falling."""
        if np.ndim(self.alphas):
            given = np.sort([number("alphas", alpha) for alpha in self.alphas])[::-1].copy()
            if not len(given) or not given[-1] > 0:
                raise InputError("alphas must be numbers > 0, and at least one of them")
            return tensor(given, A.device)
        count = number("alphas", self.alphas, 1)
        largest = float((A.mT @ b).abs().max()) / len(b)
        largest = largest if largest > 0 else 1.0  # y is constant: nothing is ever selected
        return largest * torch.logspace(
            0, np.log10(number("eps", self.eps, 1e-12, 1)), int(count), dtype=torch.float64, device=A.device
        )

    def _lassos(self, A: Tensor, b: Tensor, rows: Tensor, factors: Tensor) -> Problem:
        """Every half, centred, its columns times v: with |u|_1 for u = w / v."""
        X, y = A[rows], b[rows]
        X = (X - X.mean(1, keepdim=True)) * factors.unsqueeze(1)
        return Problem(LeastSquares(X, y - y.mean(1, keepdim=True)), L1(1.0))

    def _solved(self, lassos: Problem, sizes: Tensor) -> Found:
        """All sizes (K,) of the penalty, as chains of working sets, else one after the other for all halves."""
        problems = [Problem(lassos.f, L1(float(size))) for size in sizes]
        points = self._chained(lassos, sizes) or self._one_by_one(problems)
        proofs = [proved(problem, x, gap) for problem, (x, gap) in zip(problems, points, strict=True)]
        chosen = torch.stack([x != 0 for x, _ in points], 1)
        inactive = torch.stack([proof.inactive for proof in proofs], 1)
        return Found(chosen.cpu(), inactive.cpu(), torch.stack([proof.support for proof in proofs], 1).cpu())

    def _chained(self, lassos: Problem, sizes: Tensor) -> list[tuple[Tensor, Tensor]] | None:
        operations = at_once(form_of(lassos), self.engine)
        if operations.solved is None:
            return None
        chain = along(lassos, sizes.expand(lassos.batch, -1))
        first = solved_at_once(chain, operations, self._least_gap(), FLOOR, chain=len(sizes))
        if len(first.left):
            return None
        x, gap = (of.unflatten(0, (-1, len(sizes))) for of in (first.solution.x, first.solution.gap))
        return list(zip(x.unbind(1), gap.unbind(1), strict=True))

    def _one_by_one(self, problems: list[Problem]) -> list[tuple[Tensor, Tensor]]:
        """Each from the solution for the size before it."""
        found, x = [], None
        for problem in problems:
            tol = self._least_gap()
            solution = solve(problem, x0=x, tol=tol, floor=FLOOR, engine=self.engine)
            x = solution.x
            found.append((x, solution.gap))
        return found

    def _least_gap(self) -> float:
        return max(float(self.tol), LEAST_TOL)

    @tensors_too
    def transform(self, X: Any) -> Any:
        """The selected columns of X."""
        return super().transform(X)

    @tensors_too
    def inverse_transform(self, X: Any) -> Any:
        """X (n_samples, selected) with zeros for the columns that are not."""
        return super().inverse_transform(X)

    def _get_support_mask(self) -> Array:
        check_is_fitted(self)
        chosen: Array = as_array(self.scores_) >= self.threshold
        return chosen

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags
