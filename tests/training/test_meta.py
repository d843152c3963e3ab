"""The meta-optimizer is Adam, and a step that is not sound changes nothing."""

import pytest
import torch
from torch import Tensor

from helpers import F64, relative_error
from sureprox.training.meta import MetaAdam

SHAPES = [(4, 3), (5,), (), (2, 2)]
YES = torch.tensor(True)


def parameters(dtype: torch.dtype = F64) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=generator, dtype=dtype) for shape in SHAPES]


def gradients(generator: torch.Generator, scale: float = 1.0, dtype: torch.dtype = F64) -> list[Tensor]:
    return [scale * torch.randn(shape, generator=generator, dtype=dtype) for shape in SHAPES]


@pytest.mark.parametrize("clip", [0.0, 1.0, 0.05])
def test_it_is_adam_with_a_clipped_gradient(clip, generator):
    ours, theirs = parameters(), [p.clone().requires_grad_() for p in parameters()]
    meta = MetaAdam(ours, clip)
    adam = torch.optim.Adam(theirs, lr=0.1)
    for k in range(300):
        rate = 0.1 if k < 150 else 0.01
        given = gradients(generator, scale=10.0 ** (k % 7 - 4))
        meta.rate.fill_(rate)
        norm, taken = meta.update([g.clone() for g in given], YES).tolist()
        for p, g in zip(theirs, given, strict=True):
            p.grad = g.clone()
        adam.param_groups[0]["lr"] = rate
        expected = torch.nn.utils.clip_grad_norm_(theirs, clip if clip > 0 else float("inf"))
        adam.step()
        assert taken == 1
        assert norm == pytest.approx(float(expected), rel=1e-12)
        for a, b in zip(ours, theirs, strict=True):
            assert relative_error(a, b) <= 1e-12
    assert meta.count == 300


@pytest.mark.parametrize("spoil", ["unsound", "nan", "inf"])
@pytest.mark.parametrize("clip", [0.0, 1.0])
def test_an_unsound_step_changes_nothing(spoil, clip, generator):
    ours = parameters(torch.float32)
    meta = MetaAdam(ours, clip)
    meta.rate.fill_(0.1)
    for _ in range(3):
        meta.update(gradients(generator, dtype=torch.float32), YES)
    before, state = [p.clone() for p in ours], meta.state()
    bad = gradients(generator, dtype=torch.float32)
    if spoil != "unsound":
        bad[1][2] = float(spoil)
    _, taken = meta.update(bad, torch.tensor(spoil != "unsound")).tolist()
    assert taken == 0
    assert all(map(torch.equal, before, ours))
    assert all(torch.equal(state[name], meta.state()[name]) for name in ("mean", "square", "count"))
    assert meta.update(gradients(generator, dtype=torch.float32), YES).tolist()[1] == 1
    assert not any(map(torch.equal, before, ours))


def test_a_huge_gradient_is_clipped_not_refused(generator):
    """Its square, and so its norm in float32, overflows; the direction is what counts."""
    direction = gradients(generator, dtype=torch.float32)
    ours, theirs = parameters(torch.float32), parameters(torch.float32)
    huge, modest = MetaAdam(ours, 1.0), MetaAdam(theirs, 1.0)
    for meta, scale in ((huge, 1e30), (modest, 1e6)):
        meta.rate.fill_(0.1)
        norm, taken = meta.update([scale * g for g in direction], YES).tolist()
        assert taken == 1
        assert norm == pytest.approx(scale * float(torch.cat([g.reshape(-1) for g in direction]).norm()), rel=1e-5)
    assert not torch.isfinite((1e30 * direction[0]).norm() ** 2)
    for a, b in zip(ours, theirs, strict=True):
        assert relative_error(a, b) <= 1e-5
    assert torch.isfinite(huge.square).all()


def test_without_a_limit_a_square_that_overflows_is_refused(generator):
    """Adam would keep v = inf, and the weight would never move again."""
    ours = parameters(torch.float32)
    meta = MetaAdam(ours, 0.0)
    meta.rate.fill_(0.1)
    before = [p.clone() for p in ours]
    assert meta.update([1e30 * g for g in gradients(generator, dtype=torch.float32)], YES).tolist()[1] == 0
    assert all(map(torch.equal, before, ours))
    assert torch.isfinite(meta.square).all()
    assert meta.update([1e15 * g for g in gradients(generator, dtype=torch.float32)], YES).tolist()[1] == 1


def test_state_goes_to_another_one_and_reset_forgets(generator):
    one, other = MetaAdam(parameters(), 1.0), MetaAdam(parameters(), 1.0)
    one.rate.fill_(0.1)
    for _ in range(3):
        one.update(gradients(generator), YES)
    kept = one.state()
    one.update(gradients(generator), YES)
    other.load(kept)
    assert int(other.count) == 3
    assert not torch.equal(kept["mean"], one.mean)  # a copy, not a view
    other.put(one.weights())
    assert all(map(torch.equal, one.parameters, other.parameters))
    one.reset()
    assert not any(bool(value.any()) for value in one.state().values())
