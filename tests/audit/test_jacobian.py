"""The average Jacobian is a virtual Jacobian, and the constants are ordered as their labels say."""

import pytest
import torch

from sureprox.audit import average_jacobian, average_slope, sampled_maximum
from sureprox.audit.jacobian import jacobian, slope
from sureprox.audit.trained import global_bound, row_network
from sureprox.optimizers import L2OPA, GoMathL2O

ROWS = 6


def material(optimizer, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    network = optimizer.network
    width = (3 if isinstance(optimizer, GoMathL2O) else 2) + 2 * network.layers * network.hidden
    z = torch.randn(2, ROWS, width, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return z[0], 3 * z[1]


def made(kind: type, **arguments):
    torch.manual_seed(0)
    return kind(hidden=4, **arguments)


OPTIMIZERS = [
    (GoMathL2O, {}),
    (GoMathL2O, {"activation": "softplus", "q_shrink": "1/L"}),
    (L2OPA, {}),
    (L2OPA, {"activation": "softplus"}),
]


@pytest.mark.parametrize(("kind", "arguments"), OPTIMIZERS)
def test_average_jacobian_times_shift_is_the_difference(kind: type, arguments: dict) -> None:
    optimizer = made(kind, **arguments)
    z, step = material(optimizer)
    network = row_network(optimizer, torch.linspace(0.2, 2, ROWS, dtype=torch.float64))
    rows = torch.arange(ROWS)
    with torch.no_grad():
        average = average_jacobian(network, z, step)
        along = average_slope(network, z, step)
        difference = network(z + step, rows) - network(z, rows)
    product = torch.einsum("rqd,rd->rq", average.value, step)
    assert float((product - difference).abs().max()) < 1e-10
    assert float((along.value - difference).abs().max()) < 1e-10
    assert float(average.residual.max()) < 1e-10
    assert float(difference.abs().max()) > 1e-2


def test_jacobian_agrees_with_differences_and_jvp() -> None:
    optimizer = made(GoMathL2O)
    z, step = material(optimizer)
    network, rows = row_network(optimizer, torch.ones(ROWS, dtype=torch.float64)), torch.arange(ROWS)
    h = 1e-6
    with torch.no_grad():
        J = jacobian(network, z, rows)
        along = slope(network, z, rows, step)
        numeric = (network(z + h * step, rows) - network(z - h * step, rows)) / (2 * h)
    assert torch.allclose(torch.einsum("rqd,rd->rq", J, step), along, atol=1e-12)
    assert torch.allclose(along, numeric, atol=1e-7)


@pytest.mark.parametrize(("kind", "arguments"), OPTIMIZERS)
def test_constants_are_ordered(kind: type, arguments: dict) -> None:
    optimizer = made(kind, **arguments)
    z, step = material(optimizer)
    size = torch.full((ROWS,), 0.7, dtype=torch.float64)
    network, rows = row_network(optimizer, size), torch.arange(ROWS)
    with torch.no_grad():
        average = average_jacobian(network, z, step).value.norm(dim=2)
        secant = (network(z + step, rows) - network(z, rows)).abs() / step.norm(dim=1, keepdim=True)
        sampled = sampled_maximum(network, z, step, samples=200)
        memory = optimizer.network.layers * optimizer.network.hidden
        cells = torch.maximum(z.abs(), (z + step).abs())[:, -memory:].amax(1)
        product = torch.stack(global_bound(optimizer, size, cells), 1)
    assert bool((secant <= average * (1 + 1e-9)).all())  # the secant matrix has the smallest norm
    assert bool((average <= sampled * 1.05).all())  # the samples only estimate the supremum
    assert bool((sampled <= product).all())


def test_a_kink_is_cornered() -> None:
    """relu(z) from -1 to 2: the average slope is 2/3, although no quadrature node knows where the kink is."""
    z, step = torch.full((1, 1), -1.0, dtype=torch.float64), torch.full((1, 1), 3.0, dtype=torch.float64)
    average = average_jacobian(lambda point, rows: torch.relu(point), z, step)
    assert float(average.value) == pytest.approx(2 / 3, abs=1e-13)
