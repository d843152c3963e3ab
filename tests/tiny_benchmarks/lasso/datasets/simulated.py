import numpy as np
from benchopt import BaseDataset
from scipy import sparse
from scipy.sparse.linalg import aslinearoperator


class Dataset(BaseDataset):
    name = "Simulated"
    parameters = {"form": ["dense", "sparse", "operator"]}
    test_parameters = {"form": ["dense"]}

    def get_data(self):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((20, 30)) + 1
        if self.form == "sparse":
            X = sparse.csc_matrix(X * (rng.random(X.shape) < 0.3))
        y = X @ (rng.standard_normal(30) * (rng.random(30) < 0.2)) + 3 + 0.1 * rng.standard_normal(20)
        return {"X": aslinearoperator(X) if self.form == "operator" else X, "y": y}
