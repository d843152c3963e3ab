"""What changed its name between scikit-learn 1.4 and now."""

from typing import Any

import numpy as np

try:
    from sklearn.utils.validation import validate_data
except ImportError:  # before scikit-learn 1.6 it was a method of the estimator

    def validate_data(estimator: Any, *args: Any, **options: Any) -> Any:
        return estimator._validate_data(*args, **options)


def dense(X: Any) -> Any:
    """X as a dense array, whether it came sparse or not."""
    return X.toarray() if hasattr(X, "toarray") else np.asarray(X)


__all__ = ["dense", "validate_data"]
