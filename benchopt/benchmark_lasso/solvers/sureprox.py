"""sureprox for benchopt's benchmark_lasso: min_b 1/2 |y - X b|^2 + lmbd |b|_1, with or without an intercept."""

import warnings

import numpy as np
import torch
from benchopt import BaseSolver
from scipy import sparse
from scipy.sparse.linalg import LinearOperator

import sureprox as sp

LARGEST = 2 * 10**8  # entries of a sparse X that is still made dense, for an intercept


class Solver(BaseSolver):
    """`sureprox.solve` to smaller and smaller duality gaps, each time from zero.

    "default" is what a user gets who names no optimizer: on a CPU working sets; the others are restarted FISTA, and a
    learned optimizer with its guarantee. All that a solve does is timed; loading the weights, building the kernels and
    copying the data to the device are not. An intercept is solved for by centring X and y.
    """

    name = "sureprox"
    sampling_strategy = "tolerance"
    requirements = ["pip::sureprox"]
    parameters = {
        "optimizer": ["default", "fista-restart", "sure/lasso"],
        "device": ["cpu"],
        "engine": ["auto"],
    }
    references = [
        'B. O\'Donoghue and E. Candes, "Adaptive restart for accelerated gradient schemes", '
        "Found. Comput. Math., vol. 15, pp. 715-732 (2015)",
    ]

    def skip(self, X, y, lmbd, fit_intercept=False):
        if isinstance(X, LinearOperator):
            return True, "sureprox needs the entries of X, not an operator"
        if fit_intercept and sparse.issparse(X) and np.prod(X.shape) > LARGEST:
            return True, "sureprox makes a sparse X dense for an intercept, and this one is too large for that"
        if self.device != "cpu" and not torch.cuda.is_available():
            return True, f"no device {self.device} here"
        return False, None

    def set_objective(self, X, y, lmbd, fit_intercept=False):
        if fit_intercept and sparse.issparse(X):
            X = X.toarray()
        self.X_mean, self.y_mean = (X.mean(0), y.mean()) if fit_intercept else (0.0, 0.0)
        self.fit_intercept = fit_intercept
        A = X.astype(np.float64) if sparse.issparse(X) else np.ascontiguousarray(X - self.X_mean, dtype=np.float64)
        self.problem = sp.lasso(A, np.asarray(y - self.y_mean, dtype=np.float64), lmbd).to(device=self.device)
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
        beta = self.x[0].cpu().numpy()
        if self.fit_intercept:
            beta = np.append(beta, self.y_mean - self.X_mean @ beta)
        return {"beta": beta}
