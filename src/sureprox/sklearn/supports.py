"""What the duality gap proves of the coefficients of an estimator: which are zero and which are not."""

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from sureprox.sklearn.engine import Array
from sureprox.sklearn.tensors import as_array, like
from sureprox.support.screening import Screening

Mask = npt.NDArray[np.bool_]


class ProvedSupport:
    """Properties of estimators that keep what proves the supports of their solutions in `_screening`.

    They hold for the data as the estimator scales and centres them, in float64, up to rounding of first order, and are
    computed when one of them is first read, or the estimator is pickled. Until then it keeps these data.
    """

    coef_: Array
    _screening: Screening

    @property
    def proved_zero_(self) -> Mask:
        """Like coef_: the coefficient is proved to be zero in every minimum."""
        check_is_fitted(self)
        return self._like_coefficients(self._screening.proved.inactive)

    @property
    def proved_nonzero_(self) -> Mask:
        """Like coef_: the coefficient is proved not to be zero in any minimum."""
        check_is_fitted(self)
        return self._like_coefficients(self._screening.proved.active)

    @property
    def certified_support_(self) -> Any:
        """Whether coef_ is proved to be nonzero exactly where every minimum is: a bool, or one for each target."""
        zero, nonzero = as_array(self.proved_zero_), as_array(self.proved_nonzero_)
        right = np.where(as_array(self.coef_) == 0, zero, nonzero)
        return bool(right.all()) if right.ndim == 1 else like(self.coef_, right.all(1))

    def _like_coefficients(self, mask: Tensor) -> Mask:
        """`mask` (B, ...) without the coordinates of intercepts."""
        rows = np.atleast_2d(as_array(self.coef_))
        made = mask.cpu().numpy().reshape(len(rows), -1)[:, : rows.shape[1]].reshape(self.coef_.shape)
        proofs: Mask = like(self.coef_, made)
        return proofs
