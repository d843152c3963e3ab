"""The smallest benchmark with the interface of benchopt's benchmark_lasso: X, y, lmbd, fit_intercept and beta."""

import numpy as np
from benchopt import BaseObjective


class Objective(BaseObjective):
    name = "Tiny lasso"
    min_benchopt_version = "1.8"
    parameters = {"fit_intercept": [False, True], "reg": [0.1]}

    def set_data(self, X, y):
        self.X, self.y = X, y
        target = y - y.mean() if self.fit_intercept else y
        self.lmbd = self.reg * abs(X.T @ target).max()

    def get_objective(self):
        return {"X": self.X, "y": self.y, "lmbd": self.lmbd, "fit_intercept": self.fit_intercept}

    def get_one_result(self):
        return {"beta": np.zeros(self.X.shape[1] + self.fit_intercept)}

    def evaluate_result(self, beta):
        n = self.X.shape[1]
        assert len(beta) == n + self.fit_intercept
        residual = self.y - self.X @ beta[:n] - beta[n:].sum()
        return {"value": residual @ residual / 2 + self.lmbd * abs(beta[:n]).sum()}
