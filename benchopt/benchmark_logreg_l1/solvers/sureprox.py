"""sureprox for benchopt's benchmark_logreg_l1: min_b sum_i log(1 + exp(-y_i x_i'b)) + lmbd |b|_1, y in {-1, 1}."""

import sys

import numpy as np
import torch
from benchopt import BaseSolver
from scipy import sparse

import sureprox as sp

LARGEST = 2 * 10**8  # entries of a sparse X that is still made dense


class Solver(BaseSolver):
    """Restarted FISTA, or a learned optimizer with FISTA's rate guaranteed (`sureprox.optimizers.Certified`).

    `sureprox.logistic` takes the mean of the losses and labels in {0, 1}: the same problem, divided by the number of
    rows, with lam = lmbd / rows. One run, in which benchopt looks at every iteration it wants to see: the estimate of L
    and all steps are timed, loading the weights and copying the data to the device are not.
    """

    name = "sureprox"
    sampling_strategy = "callback"
    requirements = ["pip::sureprox"]
    parameters = {
        "optimizer": ["fista-restart", "sure/logistic"],
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
        if sparse.issparse(X) and np.prod(X.shape) > LARGEST:
            return True, "sureprox makes a sparse X dense, and this one is too large for that"
        if self.device != "cpu" and not torch.cuda.is_available():
            return True, f"no device {self.device} here"
        return False, None

    def set_objective(self, X, y, lmbd, fit_intercept=False):
        X = X.toarray() if sparse.issparse(X) else np.asarray(X)
        A, labels = torch.tensor(np.asarray(X, dtype=np.float64)), torch.tensor(np.asarray(y > 0, dtype=np.float64))
        self.problem = sp.logistic(A, labels, lmbd / len(labels)).to(device=self.device)
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
        return {"beta": self.x[0].cpu().numpy()}
