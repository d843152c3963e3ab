"""Input as scikit-learn's estimators take it, checked."""

from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data as _validated

from sureprox.problems.checks import require_unmasked

FLOATS = [np.float64, np.float32]  # kept as they are; other numbers become the first


def validate_data(estimator: Any, *args: Any, **options: Any) -> Any:
    """scikit-learn's, which would take the numbers behind a mask."""
    for name, value in zip(("X", "y"), args, strict=False):
        require_unmasked(name, value)
    return _validated(estimator, *args, **options)


__all__ = ["FLOATS", "validate_data"]
