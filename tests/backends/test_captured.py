"""On a GPU: the captured graph against plain segments, and a run with it against a plain run."""

import pytest
import torch

from optimizer_cases import calm
from sureprox.training import Loss, train
from sureprox.training.captured import CapturedSegments
from sureprox.training.meta import MetaAdam
from sureprox.training.segment import Course, PlainSegments
from sureprox.training.share import Share
from sureprox.training.team import Team
from training_cases import LASSO, bitwise, flat, network, of_kind, small_config, weights_of

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:TensorFloat32"),
    pytest.mark.filterwarnings("ignore:The .grad attribute"),  # torch's compiler looks at it
]


class Twin(Team):
    """One of two processes whose rows are the same: what the other adds is known."""

    def sum_(self, values):
        values.mul_(2)


def batches(kind: type, dtype: torch.dtype, poisoned: int | None = None, share: Share | None = None):
    """Outcome of three batches of two segments each, and the weights after them; one batch may hold a NaN."""
    optimizer = calm(network()).to("cuda", dtype)
    meta = MetaAdam(list(optimizer.parameters()), 1.0)
    segments = kind(optimizer, meta, Loss.WEIGHTED.weights(3), share)
    generator = torch.Generator("cuda").manual_seed(0)
    rows, steps = [], []
    for number in range(3):
        meta.rate.fill_(0.01 / (number + 1))
        problem, x0 = LASSO.sample(4, generator, dtype), LASSO.start(4, generator, dtype)
        if number == poisoned:
            problem.f.b[0, 0] = torch.nan
        rows.append(segments.run(segments.begin(problem, x0, generator=generator), 2).cpu())
        steps.append(weights_of(optimizer))
    return torch.stack(rows), steps


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-3), (torch.float64, 1e-9)])
def test_captured_segments_are_plain_segments(dtype, tolerance):
    plain, expected = batches(PlainSegments, dtype)
    ours, weights = batches(CapturedSegments, dtype)
    assert torch.allclose(ours, plain, rtol=tolerance)
    assert bool((plain[:, :, 2] == Course.TAKEN).all())
    for mine, other in zip(weights, expected, strict=True):
        assert float((flat(mine.values()) - flat(other.values())).abs().max()) <= tolerance


def test_captured_segments_of_a_team_are_plain_ones():
    """Two graphs with the exchange between them."""
    share = Share(Twin(rank=0, size=2, device="cuda"), "batch", 4)
    plain, expected = batches(PlainSegments, torch.float64, share=share)
    ours, weights = batches(CapturedSegments, torch.float64, share=share)
    assert torch.allclose(ours, plain, rtol=1e-9)
    assert float((flat(weights[-1].values()) - flat(expected[-1].values())).abs().max()) <= 1e-9


def test_a_failed_batch_changes_nothing_inside_a_graph():
    outcome, weights = batches(CapturedSegments, torch.float32, poisoned=1)
    assert outcome[:, :, 2].tolist() == [[1, 1], [Course.FAILED, Course.ENDED], [1, 1]]
    assert bitwise(weights[1], weights[0])
    assert not bitwise(weights[2], weights[1])


def test_a_run_with_a_graph_is_a_plain_run():
    losses = {}
    for backend in ("plain", "graph"):
        events = []
        train(network(), LASSO, small_config(), device="cuda", backend=backend, listeners=[events.append])
        assert of_kind(events, "note") == []
        assert of_kind(events, "start")[0]["backend"] == backend
        losses[backend] = [event["loss"] for event in of_kind(events, "validation")]
    assert losses["graph"] == pytest.approx(losses["plain"], rel=1e-4)
