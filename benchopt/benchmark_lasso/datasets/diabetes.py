"""scikit-learn's diabetes data, which need no download: 442 patients, all products of up to `degree` measurements."""

from benchopt import BaseDataset
from sklearn.datasets import load_diabetes
from sklearn.preprocessing import PolynomialFeatures, StandardScaler


class Dataset(BaseDataset):
    name = "Diabetes"
    parameters = {"degree": [1, 3]}  # 10 and 285 columns
    test_parameters = {"degree": [1]}
    requirements = ["scikit-learn"]

    def get_data(self):
        X, y = load_diabetes(return_X_y=True)
        X = PolynomialFeatures(self.degree, include_bias=False).fit_transform(StandardScaler().fit_transform(X))
        return {"X": StandardScaler().fit_transform(X), "y": y - y.mean()}
