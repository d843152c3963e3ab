"""The smallest benchmark with the interface of benchopt's benchmark_logreg_l1: X, y in {-1, 1}, lmbd and beta."""

import numpy as np
from benchopt import BaseObjective


class Objective(BaseObjective):
    name = "Tiny L1-logistic"
    min_benchopt_version = "1.8"
    parameters = {"reg": [0.1]}

    def set_data(self, X, y):
        self.X, self.y = X, y
        self.lmbd = self.reg * abs(X.T @ y).max() / 2

    def get_objective(self):
        return {"X": self.X, "y": self.y, "lmbd": self.lmbd}

    def get_one_result(self):
        return {"beta": np.zeros(self.X.shape[1])}

    def evaluate_result(self, beta):
        return {"value": np.logaddexp(0, -self.y * (self.X @ beta)).sum() + self.lmbd * abs(beta).sum()}
