"""Under pytest the shapes written in signatures are checked at every call."""

import jaxtyping
import pytest
import torch

from helpers import normal, random_problem


@pytest.mark.parametrize(
    "call",
    [
        lambda problem: problem.prox(normal(3, 12), normal(3, 5).abs()),
        lambda problem: problem.prox(normal(3, 12), torch.tensor(0.1, dtype=torch.float64)),
        lambda problem: problem.duality_gap(normal(12)),
    ],
)
def test_a_wrong_shape_is_caught(call):
    with pytest.raises(jaxtyping.TypeCheckError):
        call(random_problem("lasso", batch=3, n=12))


def test_a_metric_may_have_one_step_per_instance_or_per_coordinate():
    problem = random_problem("lasso", batch=3, n=12)
    step = normal(3, 1).abs()
    assert torch.equal(problem.prox(normal(3, 12), step), problem.prox(normal(3, 12), step.expand(3, 12)))
