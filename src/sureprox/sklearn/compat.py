"""What changed its name between scikit-learn 1.4 and now."""

from typing import Any

import numpy as np

from sureprox.problems.checks import require_unmasked

try:
    from sklearn.utils.validation import validate_data as _validated
except ImportError:  # before scikit-learn 1.6 it was a method of the estimator

    def _validated(estimator: Any, *args: Any, **options: Any) -> Any:
        return estimator._validate_data(*args, **options)


def validate_data(estimator: Any, *args: Any, **options: Any) -> Any:
    """scikit-learn's, which would take the numbers behind a mask."""
    for name, value in zip(("X", "y"), args, strict=False):
        require_unmasked(name, value)
    return _validated(estimator, *args, **options)


def dense(X: Any) -> Any:
    """X as a dense array, whether it came sparse or not."""
    return X.toarray() if hasattr(X, "toarray") else np.asarray(X)


__all__ = ["dense", "validate_data"]
