"""The sparse fascicle model of dipy with certified fits, all voxels as one batch; needs dipy and scikit-learn.

from sureprox.dipy import Solver, fit
model = SparseFascicleModel(gtab, solver=Solver())
fitted = fit(model, data)      # what model.fit(data) returns, in one call for all voxels
"""

from typing import Any, Self

import numpy as np

from sureprox.base.errors import InputError
from sureprox.sklearn import ElasticNet

try:
    from dipy.core.optimize import SKLearnLinearSolver
    from dipy.reconst.sfm import SparseFascicleFit, SparseFascicleModel
except ImportError as error:
    raise ImportError("sureprox.dipy needs dipy; install it: pip install dipy") from error

__all__ = ["Solver", "fit"]

CHUNK = 20_000  # voxels solved at a time


class Solver(SKLearnLinearSolver):
    """min_{w >= 0, c} 1/(2m) |y - X w - c|^2 + alpha l1_ratio 1'w + alpha (1 - l1_ratio)/2 |w|^2.

    Solved to a duality gap of `tol` times the objective. It is what dipy solves with solver="ElasticNet", with
    the same defaults; c, which dipy leaves out of its predictions, is there unless fit_intercept=False. In `model.fit`
    it is called voxel by voxel; `fit` calls it once.

    coef_ (n,) or (voxels, n) and dual_gap_, a number or (voxels,): the objective is at most so far from its minimum.
    """

    coef_: Any
    dual_gap_: Any

    def __init__(
        self, alpha: float = 0.001, l1_ratio: float = 0.5, *, fit_intercept: bool = True, tol: float = 1e-8
    ) -> None:
        super().__init__()
        self.alpha, self.l1_ratio, self.fit_intercept, self.tol = alpha, l1_ratio, fit_intercept, tol

    def fit(self, X: Any, y: Any) -> Self:
        """X (m, n); y (m,), or (m, voxels)."""
        net = ElasticNet(
            alpha=self.alpha, l1_ratio=self.l1_ratio, fit_intercept=self.fit_intercept, positive=True, tol=self.tol
        ).fit(X, y)
        self.coef_, self.dual_gap_ = net.coef_, net.dual_gap_
        return self


def fit(model: SparseFascicleModel, data: Any, mask: Any = None) -> SparseFascicleFit:
    """`model.fit(data, mask=mask)` for a model with a `Solver`, all voxels as one batch.

    data: (..., measurements). As there, a voxel without signal, or with one that is not finite relative to that without
    diffusion weighting, has no fascicles.
    """
    if not isinstance(model, SparseFascicleModel) or not isinstance(model.solver, Solver):
        solver = getattr(model, "solver", None)
        got = f"solver {type(solver).__name__}" if solver is not None else f"type {type(model).__name__}"
        raise InputError(f"model has {got}; pass a SparseFascicleModel(gtab, solver=sureprox.dipy.Solver())")
    data, without = np.asarray(data), model.gtab.b0s_mask
    if data.shape[-1:] != without.shape:
        raise InputError(f"data has shape {data.shape}; the gradient table needs (..., {len(without)})")
    inside = np.ones(data.shape[:-1], dtype=bool) if mask is None else np.asarray(mask, dtype=bool)
    if inside.shape != data.shape[:-1]:
        raise InputError(f"mask has shape {inside.shape}; data of shape {data.shape} need {data.shape[:-1]}")
    voxels = data[inside].astype(float)
    base = voxels[:, without].mean(1)
    isotropic = model.isotropic(model.gtab).fit(data, mask=mask)
    expected = isotropic.predict().reshape(*inside.shape, -1)[inside]
    with np.errstate(divide="ignore", invalid="ignore"):
        signal = voxels[:, ~without] / base[:, None]
    sound = np.isfinite(signal).all(1) & (signal != 0).any(1) & np.isfinite(expected).all(1)
    places = np.flatnonzero(sound)
    found = np.zeros((len(voxels), model.design_matrix.shape[1]))
    for some in np.split(places, range(CHUNK, len(places), CHUNK)):
        if len(some):
            found[some] = model.solver.fit(model.design_matrix, (signal[some] - expected[some]).T).coef_
    beta, S0 = np.zeros((*inside.shape, found.shape[1])), np.zeros(inside.shape)
    beta[inside], S0[inside] = found, base
    return SparseFascicleFit(model, beta, S0, isotropic)
