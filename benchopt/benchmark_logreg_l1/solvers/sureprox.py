"""sureprox for benchopt's benchmark_logreg_l1: min_b sum_i log(1 + exp(-y_i x_i'b)) + lmbd |b|_1, y in {-1, 1}."""

import warnings

import numpy as np
import torch
from benchopt import BaseSolver
from scipy import sparse

import sureprox as sp


class Solver(BaseSolver):
    """`sureprox.solve` to smaller and smaller duality gaps, each time from zero; see the solver for the LASSO.

    `sureprox.logistic` takes the mean of the losses and labels in {0, 1}: the same problem, divided by the number of
    rows, with lam = lmbd / rows.
    """

    name = "sureprox"
    sampling_strategy = "tolerance"
    requirements = ["pip::sureprox"]
    parameters = {
        "optimizer": ["default", "fista-restart", "sure/logistic"],
        "device": ["cpu"],
        "engine": ["auto"],
    }
    references = [
        'B. O\'Donoghue and E. Candes, "Adaptive restart for accelerated gradient schemes", '
        "Found. Comput. Math., vol. 15, pp. 715-732 (2015)",
    ]

    def skip(self, X, y, lmbd, fit_intercept=False):
        if fit_intercept:
            return True, "this solver has no intercept, which must not be penalised"
        if self.device != "cpu" and not torch.cuda.is_available():
            return True, f"no device {self.device} here"
        return False, None

    def set_objective(self, X, y, lmbd, fit_intercept=False):
        A = X.astype(np.float64) if sparse.issparse(X) else np.ascontiguousarray(X, dtype=np.float64)
        labels = np.asarray(y > 0, dtype=np.float64)
        self.problem = sp.logistic(A, labels, lmbd / len(labels)).to(device=self.device)
        self.method = None if self.optimizer == "default" else self.optimizer

    def warm_up(self):
        sp.prepare(self.problem, self.method, engine=self.engine)
        self.run_once(stop_val=1e-2)

    def get_next(self, tol):
        """In large steps: a point may be better than asked for, and benchopt ends a curve after three flat ones."""
        return max(min(tol, 1.0) / 100, 1e-14)

    def run(self, tol):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", sp.ConvergenceWarning)  # the curve says where it ends
            self.x = sp.solve(self.problem, self.method, tol=tol, engine=self.engine).x
        if self.device != "cpu":
            torch.cuda.synchronize()  # the clock must not stop before the last step has been taken

    def get_result(self):
        return {"beta": self.x[0].cpu().numpy()}
