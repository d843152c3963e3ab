"""scikit-learn's breast cancer data, which need no download: 569 tumours, products of up to `degree` measurements."""

from benchopt import BaseDataset
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import PolynomialFeatures, StandardScaler


class Dataset(BaseDataset):
    name = "BreastCancer"
    parameters = {"degree": [1, 2]}  # 30 and 495 columns
    test_parameters = {"degree": [1]}
    requirements = ["scikit-learn"]

    def get_data(self):
        X, y = load_breast_cancer(return_X_y=True)
        X = PolynomialFeatures(self.degree, include_bias=False).fit_transform(StandardScaler().fit_transform(X))
        return {"X": StandardScaler().fit_transform(X), "y": 2 * y - 1}
