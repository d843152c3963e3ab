"""Input as scikit-learn's estimators take it: checked, and dense where it has to be."""

from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data as _validated

from sureprox.problems.checks import require_unmasked


def validate_data(estimator: Any, *args: Any, **options: Any) -> Any:
    """scikit-learn's, which would take the numbers behind a mask."""
    for name, value in zip(("X", "y"), args, strict=False):
        require_unmasked(name, value)
    return _validated(estimator, *args, **options)


def dense(X: Any) -> Any:
    """X as a dense array, whether it came sparse or not."""
    return X.toarray() if hasattr(X, "toarray") else np.asarray(X)


__all__ = ["dense", "validate_data"]
