"""True and corrected statements hold on random runs; false ones are violated by some that are found automatically."""

import pytest
import torch

from sureprox.audit import structure
from sureprox.audit.drawn_networks import Kind
from sureprox.audit.report import quick_grid
from sureprox.audit.result import TOLERANCE, Check, bound
from sureprox.audit.samples import draw
from sureprox.audit.statements import STATEMENTS, Verdict
from sureprox.audit.trials import Tally, try_all


@pytest.fixture(scope="module")
def tallies() -> dict[str, Tally]:
    """A few hundred runs for each statement; benchmarks/audit_statements.py has thousands."""
    return try_all(10, torch.Generator().manual_seed(1), quick_grid())


@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda s: s.name)
def test_verdicts(tallies: dict[str, Tally], statement) -> None:
    tally = tallies[statement.name]
    assert tally.counts[0] > 0
    if statement.verdict is Verdict.HOLDS:
        assert tally.worst_of("printed") >= -TOLERANCE
    else:
        assert tally.worst_of("printed") < -1e-3
    for side in ("corrected", "free"):
        assert not tally.worst_of(side) < -TOLERANCE
    if statement.name != "Comparison":  # which nothing replaces
        assert tally.counts[1] > 0


@pytest.mark.parametrize("network", ["affine", "nonlinear", "aligned"])
@pytest.mark.parametrize(("smooth", "history"), [(True, "none"), (False, "variable"), (False, "gradient")])
def test_samples_satisfy_the_assumptions(network: str, smooth: bool, history: str) -> None:
    kind = Kind(n=3, steps=3, smooth=smooth, history=history, network=network)
    pair = draw(kind, 40, torch.Generator().manual_seed(2)).pair
    assert len(pair.L) > 5
    found = pair.hypotheses(smooth=smooth, history=not smooth)
    assert max(float(residual.max()) for residual in found.values()) < 1e-9
    assert float(pair.ind.N4.abs().max()) < 1e-12
    assert float(pair.shift.min()) > 1e-6
    assert float(pair.dN(1).abs().max()) > 1e-6  # out of distribution the networks do differ


@pytest.mark.parametrize("loss", ["quadratic", "logistic"])
def test_targets_are_minimisers(loss: str) -> None:
    pair = draw(Kind(n=3, steps=1, loss=loss), 30, torch.Generator().manual_seed(3)).pair
    assert float(pair.problem_ood.kkt_residual(pair.target).max()) < 1e-12


def test_printed_prox_differs_exactly_where_said() -> None:
    generator = torch.Generator().manual_seed(4)
    v = 3 * torch.randn(1000, 20, generator=generator, dtype=torch.float64)
    step = torch.rand(1000, 20, generator=generator, dtype=torch.float64) + 0.1
    t = 2 * torch.randn(1000, 1, generator=generator, dtype=torch.float64)
    check = structure.prox(v, step, 0.4, t)
    assert float(check.hypotheses["differs elsewhere than said"].max()) == 0
    wrong = check.lhs > 1e-12
    assert bool(wrong.any())
    assert bool((~wrong).any())
    assert bool((check.hypotheses["|gam| <= lam"][wrong] > 0).all())
    brute = torch.linspace(-15, 15, 6001, dtype=torch.float64)
    for i in range(5):
        value = 0.4 * (brute + t[i]).abs() + (brute - v[i, 0]).square() / (2 * step[i, 0])
        assert float(brute[value.argmin()]) == pytest.approx(
            float(structure.exact_prox(v[i, :1], step[i, :1], 0.4, t[i])), abs=5e-3
        )


def test_slack_is_relative_and_counts_where_it_applies() -> None:
    lhs = torch.tensor([1.0, 5.0], dtype=torch.float64)
    right = bound(torch.tensor([3.0, 1.0], dtype=torch.float64), applies=torch.tensor([True, False]))
    check = Check("x", lhs, lhs, right, bound(lhs), bound(lhs))
    assert check.worst("printed") == pytest.approx((3 - 1) / (1 + 3))
    assert check.count("printed") == 1
    assert check.worst("corrected") == 0
