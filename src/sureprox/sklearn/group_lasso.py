"""`GroupLasso`: groups of coefficients that are zero together."""

from dataclasses import field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sureprox.base.errors import InputError
from sureprox.problems import GroupL2, Penalty
from sureprox.sklearn import linear
from sureprox.sklearn.base import parameters
from sureprox.sklearn.elastic_net import ElasticNet
from sureprox.sklearn.linear import Design


@parameters
class GroupLasso(ElasticNet):
    """min_{w,c} 1/(2n) |y - X w - c|^2 + alpha sum_g t_g |w_g|, |w_g| the Euclidean norm of a group of coefficients.

    In the terms of `sureprox.group_lasso` this is lam = n alpha on the centred data.

    groups : the group of each feature (n_features,), with -1 for a feature that has no penalty; or lists of features,
        one for each group; or the size of groups that follow each other; None is a group for each feature.
    weights : t (n_groups,); None is the root of the size of each group, after Yuan and Lin.

    All other parameters and the results are those of `Lasso`. One number scales all columns, as a scale for each would
    be another penalty, and there are no Newton steps: features of very different units need many iterations.
    """

    l1_ratio: Any = field(default=1.0, init=False)
    positive: Any = field(default=False, init=False)
    precompute: Any = field(default=False, init=False)
    groups: Any = None
    weights: Any = None

    def _design(self, X: Any, weights: Tensor | None, device: torch.device) -> Design:
        return linear.design(X, weights, self.fit_intercept, device, one_scale=True)

    def _penalty(self, made: Design, size: Tensor) -> Penalty:
        """size sum_g t_g |coef_g| in terms of v = scale coef."""
        groups = _numbered(self.groups, len(made.scale))
        weights = self.weights
        if weights is None:
            sizes = [len(one) for one in groups] if isinstance(groups, list) else np.bincount(groups[groups >= 0])
            weights = np.sqrt(np.maximum(sizes, 1))
        return GroupL2(groups, size / made.scale[0], torch.as_tensor(np.asarray(weights, dtype=np.float64)))


def _numbered(groups: Any, features: int) -> Any:
    """The group of each feature, or lists of features."""
    if groups is None:
        return np.arange(features)
    if isinstance(groups, int | np.integer) and not isinstance(groups, bool):
        if groups < 1 or features % groups:
            raise InputError(f"groups is {groups}; {features} features need a size that divides them, or their groups")
        return np.repeat(np.arange(features // groups), groups)
    if len(groups) and np.ndim(groups[0]) > 0:
        return [list(one) for one in groups]
    return np.asarray(groups)
