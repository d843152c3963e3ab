"""Compiled against eager, in a process without shape checks, which cannot be compiled. Prints what it has compared."""

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields

import torch
from torch import Tensor

import sureprox as sp
from sureprox.kernels import Compiled
from sureprox.optimizers import ISTA, Sure
from sureprox.sources import LogisticMixture
from sureprox.training import Loss, train
from sureprox.training.goal import solved_problems
from sureprox.training.segment import meta_gradients
from sureprox.training.streamed import gap_step, unrolled
from training_cases import LASSO, LOGISTIC, flat, network, of_kind, small_config

torch.set_num_threads(1)


def setting(kind: str, family, dtype: torch.dtype):
    generator = torch.Generator().manual_seed(1)
    problem = family.sample(3, generator, dtype)
    optimizer = network(kind).to(dtype)
    return problem, optimizer, optimizer.init(problem, family.start(3, generator, dtype), generator=generator)


def largest_gap(ours, theirs) -> float:
    """Largest relative difference of two states, field by field."""
    gaps = []
    for field in fields(theirs):
        if isinstance(value := getattr(theirs, field.name), Tensor):
            gaps.append(float((getattr(ours, field.name) - value).abs().max() / value.abs().max().clamp(min=1e-12)))
    return max(gaps)


@torch.no_grad()
def steps() -> None:
    """`step` of ISTA, which compiles quickly, and `observed_step` of a network on logistic problems."""
    problem, optimizer, state = setting("rnnprop", LOGISTIC, torch.float64)
    compiled, plain = Compiled(ISTA()), ISTA()
    ours = theirs = plain.init(problem, state.x)
    for k in range(1, 4):
        ours, theirs = compiled.step(problem, ours), plain.step(problem, theirs)
        assert ours.k == k
        assert largest_gap(ours, theirs) <= 1e-10
    watched, first = Compiled(optimizer), state
    eager = state
    for k in range(1, 4):
        expected = problem.objective(eager.x)
        told, state = watched.observed_step(problem, state)
        eager = optimizer.step(problem, eager)
        assert state.k == k
        assert largest_gap(state, eager) <= 1e-10
        assert torch.allclose(told, expected, rtol=1e-10)
    assert float((eager.x - first.x).abs().max()) > 1e-3


def gradients(dtype: torch.dtype, tolerance: float) -> None:
    problem, optimizer, state = setting("go-math-l2o", LASSO, dtype)
    weights, parameters = Loss.WEIGHTED.weights(4), list(optimizer.parameters())
    loss, plain, after = meta_gradients(problem, optimizer, state, weights, parameters)
    told, ours, reached = meta_gradients(problem, Compiled(optimizer), state, weights, parameters)
    difference = float((flat(ours) - flat(plain)).norm() / flat(plain).norm())
    assert difference <= tolerance, difference
    assert float(flat(plain).norm()) > 1e-3
    assert torch.allclose(told, loss, rtol=tolerance)
    assert largest_gap(reached, after) <= 10 * tolerance


def training() -> None:
    losses, config = {}, small_config(validation=3, batches=4, epochs=1, validate_every=2)
    for backend in ("plain", "compiled"):
        events = []
        train(network(), LASSO, config, device="cpu", backend=backend, listeners=[events.append])
        assert of_kind(events, "note") == []
        assert events[0]["backend"] == backend
        losses[backend] = [event["loss"] for event in of_kind(events, "validation")]
    assert len(losses["plain"]) == 3
    assert len(set(losses["plain"])) == 3
    for ours, theirs in zip(losses["compiled"], losses["plain"], strict=True):
        assert abs(ours - theirs) <= 1e-5 * abs(theirs), losses


def streamed() -> None:
    """A segment of Sure's training, with limited gradients."""
    family, generator = LogisticMixture(m=16, n=6), torch.Generator().manual_seed(1)
    goal = solved_problems(family, 6, generator, torch.float64)
    optimizer = Sure(coordinate=3, instance=4, conjugate=True).double()
    trainee = optimizer.sharing_weights(detached_features=True)
    state = trainee.init(goal.problem, family.start(len(goal.x), generator, torch.float64))
    seen = []
    for step in (gap_step, torch.compile(gap_step, fullgraph=True, dynamic=False)):
        gaps, after = unrolled(step, trainee, goal, state, 3, flow=10.0)
        gradients = torch.autograd.grad(gaps.mean(), list(optimizer.parameters()))
        seen.append((gaps.detach(), flat(gradients), after.x.detach()))
    for ours, theirs in zip(*seen, strict=True):
        assert float((ours - theirs).norm() / theirs.norm()) <= 1e-8
    assert float(seen[0][1].norm()) > 1e-4


def solving() -> None:
    """A certified solve whose batch shrinks on the way: compiled once, the same answers, then at once again."""
    generator = torch.Generator().manual_seed(1)
    problem, x0 = LASSO.sample(40, generator, torch.float64), LASSO.start(40, generator, torch.float64)
    x0[:24] = sp.reference(problem).x[:24]  # done at once, so that they are dropped
    optimizer = Sure(coordinate=0, instance=4).double()
    options = {"check_every": 5, "polish": False}  # so that the others run on
    plain = sp.solve(problem, optimizer, x0, engine="plain", **options)
    with torch._dynamo.config.patch(recompile_limit=1, fail_on_recompile_limit_hit=True):
        quick, again = (sp.solve(problem, optimizer, x0, engine="compiled", **options) for _ in range(2))
    assert (plain.engine, quick.engine, again.engine) == ("plain", "compiled", "compiled")
    assert torch.equal(sp.solve(problem, optimizer, x0, engine="plain", **options).x, plain.x)
    assert (quick.status == plain.status).all()
    assert torch.equal(quick.iterations, plain.iterations)
    assert 0 == int(quick.iterations.min()) < 20 < int(quick.iterations.max())
    assert float((quick.x - plain.x).abs().max()) <= 1e-9
    assert torch.equal(again.x, quick.x)
    with ThreadPoolExecutor(2) as threads:  # the others' steps stay plain
        others = [threads.submit(sp.solve, problem, optimizer, x0, engine="plain", **options) for _ in range(4)]
        for other in others:
            assert torch.equal(other.result(timeout=300).x, plain.x)


COMPARISONS = {
    "steps": steps,
    "gradients-float32": lambda: gradients(torch.float32, 1e-3),
    "gradients-float64": lambda: gradients(torch.float64, 1e-9),
    "training": training,
    "streamed": streamed,
    "solving": solving,
}

if __name__ == "__main__":
    for name in sys.argv[1:]:
        began = time.perf_counter()
        COMPARISONS[name]()
        print(f"{name} {time.perf_counter() - began:.1f} s")
