"""Segments against naive unrolling, finite differences and hand-made truncation; batches that fail or diverge."""

from dataclasses import fields

import pytest
import torch
from torch import Tensor

from helpers import F64, relative_error
from optimizer_cases import calm, seeded, small_problem, start_point
from sureprox.problems import Problem
from sureprox.training import Loss
from sureprox.training.meta import MetaAdam
from sureprox.training.segment import Course, PlainSegments, meta_gradients, segment_loss, validation_loss
from training_cases import LSTM_KINDS, Misbehaving, bitwise, flat, network, weights_of

FAMILIES = ("lasso", "logistic")


def setting(kind: str, family: str = "lasso"):
    """A float64 problem, an optimizer on it with bounded paths, and its first state."""
    problem, optimizer = small_problem(family), calm(network(kind)).to(F64)
    return problem, optimizer, optimizer.init(problem, start_point(), generator=seeded())


def naive_loss(problem, optimizer, state, weights) -> tuple[Tensor, object]:
    total = torch.zeros((), dtype=F64)
    for weight in weights:
        state = optimizer.step(problem, state)
        total = total + weight * problem.objective(state.x).mean()
    return total, state


@pytest.mark.parametrize("loss", Loss)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("kind", LSTM_KINDS)
def test_segment_loss_is_the_naive_one(kind, family, loss):
    problem, optimizer, state = setting(kind, family)
    weights = loss.weights(5)
    ours, after = segment_loss(problem, optimizer, state, weights)
    theirs, expected = naive_loss(problem, optimizer, state, weights)
    assert relative_error(ours, theirs) <= 1e-12
    assert after.k == expected.k == 5
    for field in fields(after):
        if isinstance(value := getattr(after, field.name), Tensor):
            assert torch.allclose(value, getattr(expected, field.name), rtol=1e-12, atol=1e-12), field.name


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("kind", LSTM_KINDS)
def test_meta_gradients_are_finite_differences(kind, family):
    problem, optimizer, state = setting(kind, family)
    weights, parameters = Loss.WEIGHTED.weights(4), list(optimizer.parameters())
    loss, gradients, _ = meta_gradients(problem, optimizer, state, weights, parameters)
    assert not loss.requires_grad
    generator = torch.Generator().manual_seed(3)
    start, h = [p.detach().clone() for p in parameters], 1e-6
    for _ in range(3):
        direction = [torch.randn(p.shape, generator=generator, dtype=F64) for p in parameters]
        values = []
        for sign in (1, -1):
            with torch.no_grad():
                for p, origin, d in zip(parameters, start, direction, strict=True):
                    p.copy_(origin + sign * h * d)
                values.append(naive_loss(problem, optimizer, state, weights)[0])
        measured = float(values[0] - values[1]) / (2 * h)
        told = float(flat(gradients) @ flat(direction))
        assert told == pytest.approx(measured, rel=1e-5, abs=1e-9)
        assert abs(told) > 1e-6


@pytest.mark.parametrize("kind", LSTM_KINDS)
def test_no_gradient_flows_from_one_segment_into_the_next(kind):
    problem, optimizer, state = setting(kind)
    weights, parameters = Loss.MEAN.weights(3), list(optimizer.parameters())
    _, _, middle = meta_gradients(problem, optimizer, state, weights, parameters)
    assert not any(getattr(middle, f.name).requires_grad for f in fields(middle) if f.name != "k")
    _, second, _ = meta_gradients(problem, optimizer, middle, weights, parameters)

    uncut = naive_loss(problem, optimizer, state, weights)[1]
    truncated = torch.autograd.grad(naive_loss(problem, optimizer, uncut.detach(), weights)[0], parameters)
    whole = torch.autograd.grad(naive_loss(problem, optimizer, uncut, weights)[0], parameters)
    assert relative_error(flat(second), flat(truncated)) <= 1e-10
    assert relative_error(flat(whole), flat(truncated)) > 1e-3


def run(segments: PlainSegments, problem: Problem, x0: Tensor, count: int) -> Tensor:
    return segments.run(segments.begin(problem, x0, generator=seeded()), count)


def test_segments_of_a_batch_learn_one_after_the_other():
    """Three segments are: gradient, update, and on from where the path is."""
    problem, optimizer, state = setting("go-math-l2o")
    weights, twin = Loss.WEIGHTED.weights(2), calm(network()).to(F64)
    meta, theirs = MetaAdam(list(optimizer.parameters()), 1.0), MetaAdam(list(twin.parameters()), 1.0)
    meta.rate.fill_(0.01)
    theirs.rate.fill_(0.01)
    rows = run(PlainSegments(optimizer, meta, weights), problem, start_point(), 3)
    for row in rows:
        loss, state = naive_loss(problem, twin, state.detach(), weights)
        gradients = torch.autograd.grad(loss, list(twin.parameters()))
        norm, _ = theirs.update(gradients, torch.tensor(True))
        assert row.tolist() == pytest.approx([float(loss.detach()), float(norm), Course.TAKEN], rel=1e-9)
    for a, b in zip(optimizer.parameters(), twin.parameters(), strict=True):
        assert torch.allclose(a, b, rtol=1e-9, atol=1e-12)


def test_validation_loss_is_the_mean_over_iterations_and_the_last():
    problem, optimizer, state = setting("l2o-pa")
    mean, final = validation_loss(problem, optimizer, state, 6)
    values = []
    for _ in range(6):
        state = optimizer.step(problem, state)
        values.append(problem.objective(state.x).mean().detach())
    assert float(mean) == pytest.approx(float(torch.stack(values).mean()), rel=1e-12)
    assert float(final) == pytest.approx(float(values[-1]), rel=1e-12)
    assert not mean.requires_grad


# ----------------------------------------------------------------------------------------------- batches that go wrong


def segments_of(how: str | None, at: int = 0, count: int = 4) -> tuple[list[list[float]], dict[str, Tensor]]:
    """What a batch of `count` segments of two steps says, and the weights after it; step `at` misbehaves."""
    problem, inner = small_problem("lasso"), calm(network()).to(F64)
    meta = MetaAdam(list(inner.parameters()), 1.0)
    meta.rate.fill_(0.01)
    optimizer = inner if how is None else Misbehaving(inner, at, how)
    rows = run(PlainSegments(optimizer, meta, [0.5, 0.5]), problem, start_point(), count)
    return rows.tolist(), weights_of(inner)


@pytest.mark.parametrize("how", ["nan", "gradient"])
def test_a_segment_that_is_not_finite_fails_and_the_rest_of_the_batch_is_left_out(how):
    rows, after = segments_of(how, at=3)
    assert [row[2] for row in rows] == [Course.TAKEN, Course.FAILED, Course.ENDED, Course.ENDED]
    assert bitwise(after, segments_of(None, count=1)[1])


def test_a_diverging_segment_is_learned_from_and_ends_the_batch():
    rows, after = segments_of("grows", at=3)
    assert [row[2] for row in rows] == [Course.TAKEN, Course.TAKEN, Course.ENDED, Course.ENDED]
    assert bitwise(after, segments_of("grows", at=3, count=2)[1])
    assert not bitwise(after, segments_of(None, count=1)[1])


def test_without_trouble_every_segment_is_taken():
    assert [row[2] for row in segments_of(None)[0]] == [Course.TAKEN] * 4


@pytest.mark.parametrize(("factor", "then"), [(0.99, Course.TAKEN), (1.01, Course.ENDED)])
def test_a_batch_diverges_at_ten_thousand_times_the_first_objective(factor, then):
    problem, x0 = small_problem("lasso"), start_point()
    weight = torch.zeros(3, dtype=F64)
    meta, course = MetaAdam([weight], 0.0), Course(problem.device)
    course.begin(problem, x0)
    gradient = [torch.ones(3, dtype=F64)]
    loss = factor * 1e4 * problem.objective(x0).mean()
    assert course.learn(meta, loss, gradient).tolist() == [float(loss), pytest.approx(3**0.5), Course.TAKEN]
    assert course.learn(meta, loss / 1e5, gradient)[2] == then
    course.begin(problem, x0)
    assert course.learn(meta, loss / 1e5, gradient)[2] == Course.TAKEN
