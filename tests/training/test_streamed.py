"""Training on a stream: the gap, the limit on the gradient, who is replaced when, and runs that stop and go on."""

import math
from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import sureprox as sp
from helpers import refused
from sureprox.optimizers import Sure
from sureprox.sources import GeneralMixture, GroupFamily, LassoMixture, LogisticMixture, PoissonFamily
from sureprox.training import StreamConfig, preset, train
from sureprox.training.goal import inner, inside, log_gap, solved_problems
from sureprox.training.run import TrainingRun
from sureprox.training.streamed import Limited, Stream, StreamedRun, gap_step, unrolled
from training_cases import CPU, Recipe, bitwise, of_kind, strict_lines, timeless, weights_of

F64 = torch.float64
FAMILIES = {"lasso": LassoMixture(m=12, n=16), "logistic": LogisticMixture(m=24, n=8)}


@dataclass(frozen=True)
class Both:
    """Two sorts of problems that take turns."""

    name: ClassVar[str] = "both"
    m: int = 24
    n: int = 16

    @property
    def parts(self):
        return LassoMixture(12, self.n), LassoMixture(self.m, self.n)


every_family = pytest.mark.parametrize("name", list(FAMILIES))


def small(**changes) -> StreamConfig:
    base = {"segment": 4, "batch": 5, "batches": 10, "pool": 12, "horizon": 12, "warm_up": 3, "length": 6}
    return StreamConfig(**(base | {"validate_every": 4, "validation": 6, "checkpoint_every": 3} | changes))


def fresh(seed: int = 0, **arguments) -> Sure:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Sure(**({"coordinate": 3, "instance": 4} | arguments))


def streamed(config: StreamConfig, family=FAMILIES["lasso"], *listeners, **arguments) -> StreamedRun:
    optimizer = fresh(**arguments)
    recipe = Recipe(optimizer.kind, optimizer.arguments, family, config)
    return StreamedRun("plain", recipe, optimizer, CPU, None, list(listeners), False)


# --- the gap ----------------------------------------------------------------------------------------------------------


@every_family
def test_solutions_are_solutions_and_weights_have_mean_one(name, generator):
    goal = solved_problems(FAMILIES[name], 20, generator, F64)
    assert 10 <= goal.problem.batch <= 20
    gap = goal.problem.duality_gap(goal.x)
    assert float((gap / goal.scale).max()) <= 1e-11
    torch.testing.assert_close(goal.scale, goal.problem.objective(goal.x), rtol=1e-12, atol=0)
    assert float(goal.weight.mean()) == pytest.approx(1)
    lam = goal.problem.r.lam.unsqueeze(1)
    assert bool((goal.slope.abs() <= lam).all())
    assert bool((goal.slope == lam * torch.sign(goal.x))[goal.x != 0].all())
    assert bool((goal.push == 0).all())


@every_family
def test_log_gap_is_the_gap_where_that_can_be_computed(name, generator):
    goal = solved_problems(FAMILIES[name], 8, generator, F64)
    for size in (1.0, 1e-2, 1e-3):
        x = goal.x + size * torch.randn(goal.x.shape, generator=generator, dtype=F64)
        expected = torch.log((goal.problem.objective(x) - goal.scale) / goal.scale + 1e-10)
        torch.testing.assert_close(log_gap(goal, x, inner(goal.problem, x)), expected, rtol=1e-5, atol=1e-3)


@every_family
def test_log_gap_in_float32_follows_float64_far_below_what_objectives_can_tell(name, generator):
    goal = solved_problems(FAMILIES[name], 8, generator, F64)
    single = goal._replace(problem=goal.problem.to(dtype=torch.float32))
    single = type(goal)(single.problem, *(t.float() for t in single[1:]))
    x = goal.x + 1e-4 * torch.randn(goal.x.shape, generator=generator, dtype=F64) * (goal.x != 0)
    exact, seen = log_gap(goal, x, inner(goal.problem, x)), log_gap(single, x.float(), inner(single.problem, x.float()))
    assert float(exact.max()) < math.log(1e-5)
    torch.testing.assert_close(seen.double(), exact, rtol=0, atol=0.15)


@pytest.mark.parametrize("part", [0, 1, 3], ids=["squares", "logistic", "huber"])
def test_log_gap_of_every_form_is_the_gap_in_float64_and_follows_it_in_float32(part, generator):
    family = GeneralMixture(m=24, n=12).parts[part]
    goal = solved_problems(family, 30, generator, F64)
    problem, r = goal.problem, goal.problem.r
    assert all(bool((used > 0).any()) for used in (r.l1, r.l2, -r.low, goal.push.abs()))
    assert float((problem.kkt_residual(goal.x) / problem.scale()[1]).max()) <= 1e-5
    for size in (1.0, 0.1):
        x = inside(problem, goal.x + size * torch.randn(goal.x.shape, generator=generator, dtype=F64))
        expected = torch.log((problem.objective(x) - problem.objective(goal.x)) / goal.scale + 1e-10)
        torch.testing.assert_close(log_gap(goal, x, inner(problem, x)), expected, rtol=1e-4, atol=1e-3)
    single = type(goal)(problem.to(dtype=torch.float32), *(t.float() for t in goal[1:]))
    size = 1e-4 * goal.x.abs().amax(1, keepdim=True) * (goal.x != 0)
    x = inside(problem, goal.x + size * torch.randn(goal.x.shape, generator=generator, dtype=F64))
    exact, seen = log_gap(goal, x, inner(problem, x)), log_gap(single, x.float(), inner(single.problem, x.float()))
    torch.testing.assert_close(seen.double(), exact, rtol=0, atol=0.15)
    assert float(exact.min()) < math.log(1e-7)


def test_starts_are_moved_into_the_domain(generator):
    for family in GeneralMixture(m=24, n=12).parts:
        problem = family.sample(40, generator, F64)
        x0 = inside(problem, family.start(40, generator, F64))
        assert bool(torch.isfinite(problem.objective(x0)).all())


def test_problems_without_an_l_or_a_separable_penalty_are_refused(generator):
    for family in (GroupFamily(m=8, n=10, nonzeros=5), PoissonFamily(m=8, n=10, nonzeros=5)):
        refused(lambda f=family: solved_problems(f, 4, generator, F64), "separable", error=sp.ConfigError)


# --- the gradient -----------------------------------------------------------------------------------------------------


def test_the_gradient_through_x_is_limited_for_each_instance():
    x = torch.tensor([[3.0, 4.0], [0.3, 0.4], [1.0, 1.0]], dtype=F64, requires_grad=True)
    scale = torch.tensor([[1.0], [1.0], [torch.nan]], dtype=F64)
    limit = torch.tensor([1.0, 1.0, 1.0], dtype=F64)
    passed = Limited.apply(x, limit)
    assert torch.equal(passed, x)
    (gradient,) = torch.autograd.grad((passed * x.detach() * scale).sum(), x)
    torch.testing.assert_close(gradient, torch.tensor([[0.6, 0.8], [0.3, 0.4], [0.0, 0.0]], dtype=F64))


@every_family
def test_without_a_limit_the_gradient_is_that_of_finite_differences(name, generator):
    goal = solved_problems(FAMILIES[name], 6, generator, F64)
    optimizer = fresh().double()
    state = optimizer.init(goal.problem, FAMILIES[name].start(goal.problem.batch, generator, F64))

    def loss() -> torch.Tensor:
        return unrolled(gap_step, optimizer, goal, state, 4)[0].mean()

    weight = optimizer.network.out.bias
    (slope,) = torch.autograd.grad(loss(), weight)
    with torch.no_grad():
        for i in range(3):
            ends = []
            for e in (1e-6, -1e-6):
                weight[i] += e
                ends.append(float(loss()))
                weight[i] -= e
            assert float(slope[i]) == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-4, abs=1e-8)


def test_the_gaps_are_those_after_each_step(generator):
    goal = solved_problems(FAMILIES["lasso"], 6, generator, F64)
    optimizer = fresh().double()
    state = optimizer.init(goal.problem, goal.x + 1)
    gaps, after = unrolled(gap_step, optimizer, goal, state, 3)
    walked = list(sp.iterate(goal.problem, optimizer, state, 3))
    for row, there in zip(gaps, walked, strict=True):
        torch.testing.assert_close(row, log_gap(goal, there.x, inner(goal.problem, there.x)))
    torch.testing.assert_close(after.x, walked[-1].x)


# --- the stream -------------------------------------------------------------------------------------------------------


def test_only_who_is_done_is_replaced(generator):
    pool = solved_problems(FAMILIES["lasso"], 24, generator, F64)
    optimizer = fresh().double()
    stream = Stream(pool, 3, optimizer)
    stream.refill(torch.tensor([1, 2, 3]), torch.ones(3, 16, dtype=F64))
    assert stream.index.tolist() == [1, 2, 3]
    with torch.no_grad():
        stream.put(unrolled(gap_step, optimizer, stream.goal, stream.state, 4)[1])
    kept = stream.state.x.clone()
    gap = torch.tensor([0.0, -40.0, 50.0], dtype=F64)  # at work, solved, lost
    stream.retire(gap, 4, horizon=100)
    assert stream.done.tolist() == [False, True, True]
    stream.refill(torch.tensor([5, 6, 7]), 2 * torch.ones(3, 16, dtype=F64))
    assert stream.index.tolist() == [1, 6, 7]
    assert stream.age.tolist() == [4, 0, 0]
    assert torch.equal(stream.state.x[0], kept[0])
    assert bool((stream.state.x[1:] == 2).all())
    assert stream.state.fresh.tolist() == [0, 1, 1]
    assert torch.equal(stream.goal.x, pool.x[[1, 6, 7]])
    assert torch.equal(stream.goal.problem.f.A, pool.problem.f.A[[1, 6, 7]])
    stream.retire(torch.zeros(3, dtype=F64), 4, horizon=8)
    assert stream.done.tolist() == [True, False, False]
    stream.retire(torch.tensor([0.0, torch.nan, 0.0], dtype=F64), 1, horizon=100)
    assert stream.done.tolist() == [False, True, False]


class NoWaiting(TorchDispatchMode):
    """Refuses what would make the host wait for the device, and so cannot be captured."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function.overloadpacket.__name__
        assert name not in ("_local_scalar_dense", "nonzero", "equal", "masked_select"), name
        return function(*args, **(kwargs or {}))


@every_family
@pytest.mark.parametrize("arguments", [{}, {"coordinate": 0, "conjugate": True}])
def test_a_segment_never_waits_for_the_device(name, arguments):
    run = streamed(small(), FAMILIES[name], **arguments)
    run.learn()
    with NoWaiting():
        run._segment()


def test_an_instance_that_is_lost_neither_stops_training_nor_stays():
    run = streamed(small(batch=3))
    run.learn()
    run.stream.state.x[1] = torch.nan
    run.stream.done.fill_(False)
    before = weights_of(run.optimizer)
    loss, norm, taken = run._segment().tolist()
    assert taken == 1
    assert math.isfinite(loss)
    assert math.isfinite(norm)
    assert all(torch.isfinite(w).all() for w in weights_of(run.optimizer).values())
    assert before.keys() == weights_of(run.optimizer).keys()
    assert bool(run.stream.done[1])


# --- runs -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "drop"), [({}, 0.5), ({"coordinate": 0, "conjugate": True}, 0.1)], ids=["full", "light"]
)
def test_the_tiny_preset_lowers_the_loss(arguments, drop, tmp_path):
    recipe = preset("sure-tiny", **arguments)
    torch.manual_seed(0)
    optimizer = recipe.build()
    result = train(optimizer, recipe.family, recipe.training, tmp_path, device="cpu")
    assert result.completed
    assert result.failures == 0
    losses = [event["loss"] for event in of_kind(strict_lines(tmp_path / "log.jsonl"), "validation")]
    assert len(losses) == 4
    assert result.best_validation <= losses[0] - drop
    card = sp.optimizers.read_card(tmp_path / "model")
    assert (card.optimizer, card.family["name"], card.training["horizon"]) == ("sure", "sure-lasso", 60)
    assert bitwise(weights_of(sp.load(tmp_path / "model")), weights_of(optimizer))


class KilledError(Exception):
    pass


@pytest.mark.parametrize(("family", "features"), [(FAMILIES["lasso"], "l1"), (Both(), "general")], ids=["one", "two"])
def test_a_killed_run_goes_on_to_the_same_weights(family, features, tmp_path):
    config = small()

    def run(out, *listeners):
        optimizer = fresh(features=features)
        train(optimizer, family, config, out, device="cpu", listeners=listeners)
        return weights_of(optimizer)

    def kill(event):
        if event["event"] == "batch" and event["batch"] == 8:
            raise KilledError

    whole = run(tmp_path / "whole")
    with pytest.raises(KilledError):
        run(tmp_path / "cut", kill)
    assert bitwise(run(tmp_path / "cut"), whole)
    logs = [timeless(strict_lines(tmp_path / name / "log.jsonl")) for name in ("whole", "cut")]
    assert logs[0] == logs[1]
    other = fresh(features=features)
    train(other, family, small(seed=1), device="cpu")
    assert not bitwise(weights_of(other), whole)


def test_the_parts_of_a_mixture_take_turns():
    run = streamed(small(), Both(), features="general")
    assert [stream.pool.problem.f.m for stream in run.streams] == [12, 24]
    for k in range(4):
        ages = [stream.age.clone() for stream in run.streams]
        run.learn()
        changed = [not torch.equal(stream.age, age) for stream, age in zip(run.streams, ages, strict=True)]
        assert changed == [j == k % 2 for j in range(2)]
        run.progress.batch += 1
    assert len({len(goal.scale) for goal, _ in run.validation}) == 1
    assert bool(torch.isfinite(torch.stack(run.validate())).all())


def test_every_run_has_a_stream_state():
    assert TrainingRun.stream_state(streamed(small())) == {}
    saved = streamed(small()).stream_state()
    assert {"index", "age", "done", "state.x", "state.instance_h"} <= saved.keys()


def test_what_does_not_fit_is_refused():
    paper = preset("tiny")
    for optimizer, config, wanted in ((fresh(), paper.training, "Stream"), (paper.build(), small(), "Training")):
        parts = "trained with a", f"{wanted}Config"
        refused(lambda o=optimizer, c=config: train(o, "lasso", c), *parts, error=sp.ConfigError)


def test_a_backend_that_fails_is_replaced_by_plain():
    events = []
    run = streamed(small(), FAMILIES["lasso"], events.append)

    def broken(*args):
        raise RuntimeError("no such thing\nhere")

    run.backend_name, run.step = "compiled", broken
    assert run.attempt(run.learn).shape == (1, 3)
    assert "compiled failed (RuntimeError: no such thing): going on with plain" in events[-1]["text"]
    assert run.backend_name == "plain"
