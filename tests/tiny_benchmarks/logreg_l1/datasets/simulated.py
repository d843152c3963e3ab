import numpy as np
from benchopt import BaseDataset
from scipy import sparse


class Dataset(BaseDataset):
    name = "Simulated"
    parameters = {"form": ["dense", "sparse"]}
    test_parameters = {"form": ["dense"]}

    def get_data(self):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((40, 15))
        if self.form == "sparse":
            X = sparse.csr_matrix(X * (rng.random(X.shape) < 0.4))
        margin = X @ (rng.standard_normal(15) * (rng.random(15) < 0.4)) + 0.3 * rng.standard_normal(40)
        return {"X": X, "y": np.where(margin > 0, 1, -1)}
