"""Every learned optimizer walks the path of an independent implementation, weights and initial state given."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import sureprox as sp
from sureprox.optimizers import L2ODM, L2OPA, AdaLISTA, GoMathL2O, RNNProp

ACTIVATION = {"lasso": "sigmoid", "logistic": "softplus"}
SHRINK = {"sqrtL": "1/sqrtL", "L": "1/L", "L2": "1/L^2"}


def build(family: str, name: str):
    if name == "ada_lista":
        return AdaLISTA(20)
    if name == "l2o_dm":
        return L2ODM()
    if name == "rnnprop":
        return RNNProp()
    if name == "l2o_pa":
        return L2OPA(activation=ACTIVATION[family])
    variant, _, shrink = name.removeprefix("go_math_l2o_").partition("_q_over_")
    return GoMathL2O(gradient_map=variant, q_shrink=SHRINK.get(shrink, "none"), activation=ACTIVATION[family])


CASES = [
    *(f"{family}_go_math_l2o_{variant}" for family in ACTIVATION for variant in ("lhnor", "lh", "std")),
    *(f"lasso_go_math_l2o_lhnor_q_over_{shrink}" for shrink in SHRINK),
    *(f"{family}_{name}" for family in ACTIVATION for name in ("l2o_pa", "l2o_dm", "rnnprop")),
    "lasso_ada_lista",
]


@pytest.mark.parametrize("case", CASES)
def test_path(case, golden):
    data = golden(case)
    family, _, name = case.partition("_")
    A, b = torch.tensor(data["A"]), torch.tensor(data["b"])
    lam = float(data["lam"])
    problem = sp.lasso(A, b, lam) if family == "lasso" else sp.logistic(A, b, lam, curvature=1.0)
    optimizer = build(family, name)
    optimizer.load_released({k: v for k, v in data.items() if k.startswith("param.")})
    path = torch.tensor(data["x"])
    state = optimizer.init(problem, path[0], step_size=0.9999 / problem.lipschitz(exact=True))
    if "h0" in data:
        state = replace(state, h=torch.tensor(data["h0"]), c=torch.tensor(data["c0"]))
    tolerance = 1e-5 if case == "logistic_go_math_l2o_std" else 1e-9  # that map amplifies rounding
    compared = 0
    for k in range(1, len(path)):
        if path[k].abs().max() > 1e6:
            break
        state = optimizer.step(problem, state)
        compared += 1
        seen = {"x": (state.x, path[k])}
        if (
            family == "lasso" or path[k].abs().max() < 10
        ):  # beyond, their logistic objective is log of a rounded sigmoid
            seen["objective"] = (problem.objective(state.x), data["objective"][k])
        seen |= {key: (getattr(state, key), data[key][k - 1]) for key in "RQBP" if key in data}
        if "momentum" in data:
            seen["momentum"] = (state.momentum, data["momentum"][k - 1])
        for key, (ours, theirs) in seen.items():
            theirs = torch.as_tensor(np.asarray(theirs))
            error = ((ours - theirs).abs() / theirs.abs().clamp(min=1)).max()
            assert error <= tolerance, f"{key} at step {k}: {error:.1e}"
    assert compared >= 8
