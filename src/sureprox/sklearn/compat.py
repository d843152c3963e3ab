"""Input as scikit-learn's estimators take it: checked, and dense where it has to be."""

from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data


def dense(X: Any) -> Any:
    """X as a dense array, whether it came sparse or not."""
    return X.toarray() if hasattr(X, "toarray") else np.asarray(X)


__all__ = ["dense", "validate_data"]
