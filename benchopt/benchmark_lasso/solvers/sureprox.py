"""sureprox for benchopt's benchmark_lasso: min_b 1/2 |y - X b|^2 + lmbd |b|_1, with or without an intercept."""

import sys

import numpy as np
import torch
from benchopt import BaseSolver
from scipy import sparse
from scipy.sparse.linalg import LinearOperator

import sureprox as sp

LARGEST = 2 * 10**8  # entries of a sparse X that is still made dense


class Solver(BaseSolver):
    """Restarted FISTA, or a learned optimizer with FISTA's rate guaranteed (`sureprox.optimizers.Certified`).

    One run, in which benchopt looks at every iteration it wants to see: the estimate of L and all steps are timed,
    loading the weights and copying the data to the device are not. An intercept is solved for by centring X and y.
    """

    name = "sureprox"
    sampling_strategy = "callback"
    requirements = ["pip::sureprox"]
    parameters = {
        "optimizer": ["fista-restart", "sure/lasso"],
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
        if sparse.issparse(X) and np.prod(X.shape) > LARGEST:
            return True, "sureprox makes a sparse X dense, and this one is too large for that"
        if self.device != "cpu" and not torch.cuda.is_available():
            return True, f"no device {self.device} here"
        return False, None

    def set_objective(self, X, y, lmbd, fit_intercept=False):
        X = X.toarray() if sparse.issparse(X) else np.asarray(X)
        self.X_mean, self.y_mean = (X.mean(0), y.mean()) if fit_intercept else (0.0, 0.0)
        self.fit_intercept = fit_intercept
        A, b = (torch.tensor(np.asarray(part, dtype=np.float64)) for part in (X - self.X_mean, y - self.y_mean))
        self.problem = sp.lasso(A, b, lmbd).to(device=self.device)
        self.method = sp.optimizers.FISTA(restart=True)
        if self.optimizer != "fista-restart":
            self.method = sp.optimizers.Certified(sp.load(self.optimizer, device=self.device))

    def warm_up(self):
        sp.prepare(self.problem, self.method, certify=False, engine=self.engine)
        self.run_once(stop_val=2)

    @torch.no_grad()
    def run(self, callback):
        self.x = self.problem.start()
        state = self.method.init(self.problem, self.x)
        states = sp.iterate(self.problem, self.method, state, sys.maxsize, engine=self.engine)
        while callback():
            self.x = next(states).x
            if self.device != "cpu":
                torch.cuda.synchronize()  # the clock must not stop before the step has been taken

    def get_result(self):
        beta = self.x[0].cpu().numpy()
        if self.fit_intercept:
            beta = np.append(beta, self.y_mean - self.X_mean @ beta)
        return {"beta": beta}
