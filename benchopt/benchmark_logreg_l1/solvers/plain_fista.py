"""Plain FISTA in numpy for benchmark_logreg_l1, which has none: what a faster method must be faster than."""

import numpy as np
from benchopt import BaseSolver
from scipy import sparse
from scipy.special import expit


class Solver(BaseSolver):
    """x+ = S(z - X'u / L, lmbd / L), u_i = -y_i sigma(-y_i x_i'z), L = |X|^2 / 4, with Nesterov's momentum."""

    name = "Plain-FISTA"
    sampling_strategy = "callback"
    requirements = []

    def set_objective(self, X, y, lmbd, fit_intercept=False):
        self.X, self.y, self.lmbd = X, y, lmbd

    def run(self, callback):
        X, y = self.X, self.y
        size = sparse.linalg.svds(X, k=1)[1][0] if sparse.issparse(X) else np.linalg.norm(X, ord=2)
        L, t = size**2 / 4, 1.0
        self.x = z = np.zeros(X.shape[1])
        while callback():
            v = z + X.T @ (y * expit(-y * (X @ z))) / L
            x = v - np.clip(v, -self.lmbd / L, self.lmbd / L)
            t, before = (1 + np.sqrt(1 + 4 * t**2)) / 2, t
            z = x + (before - 1) / t * (x - self.x)
            self.x = x

    def get_result(self):
        return {"beta": self.x}
