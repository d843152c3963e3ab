"""One contract for every optimizer of the project, on every family of problems that it solves."""

import copy
import inspect

import pytest
import torch
from torch import Tensor

import sureprox as sp
from optimizer_cases import (
    BATCH,
    CASES,
    F64,
    HIDDEN,
    N,
    calm,
    gap,
    path,
    seeded,
    small_problem,
    start_point,
    states,
    tensors,
)
from sureprox.optimizers import Activation, GoMathL2O, GradientMap, LearnedOptimizer, Optimizer, QShrink
from sureprox.optimizers.kinds import BUILT_IN
from sureprox.problems import Penalty, Problem, Smooth

PAIRS = [pytest.param(case, family, id=f"{case.name}-{family}") for case in CASES for family in case.families]
LEARNED = [p for p in PAIRS if isinstance(p.values[0].make(), LearnedOptimizer)]
every = pytest.mark.parametrize(("case", "family"), PAIRS)
every_learned = pytest.mark.parametrize(("case", "family"), LEARNED)


def select_pairs(condition):
    return pytest.mark.parametrize(("case", "family"), [p for p in PAIRS if condition(p.values[0])])


def concrete_optimizers(names, namespace) -> set[type]:
    found = (getattr(namespace, name) for name in names)
    return {c for c in found if inspect.isclass(c) and issubclass(c, Optimizer) and not inspect.isabstract(c)}


# --- completeness -----------------------------------------------------------------------------------------------------


def test_every_public_optimizer_is_in_the_contract():
    public = concrete_optimizers(sp.optimizers.__all__, sp.optimizers)
    assert len(public) >= 9
    assert public - {type(case.make()) for case in CASES} == set()


def test_every_optimizer_class_of_the_package_is_public():
    def below(cls: type) -> set[type]:
        return {cls}.union(*(below(c) for c in cls.__subclasses__()))

    ours = {
        c for c in below(Optimizer) if c.__module__.startswith("sureprox.optimizers.") and not inspect.isabstract(c)
    }
    assert ours == concrete_optimizers(sp.optimizers.__all__, sp.optimizers)


def test_every_variant_of_go_math_l2o_is_in_the_contract():
    seen = {(o.gradient_map, o.q_shrink, o.activation) for o in (c.make() for c in CASES) if isinstance(o, GoMathL2O)}
    assert seen == {(g, q, a) for g in GradientMap for q in QShrink for a in Activation}


def test_every_learned_optimizer_can_be_saved_by_kind():
    learned = {c for c in concrete_optimizers(sp.optimizers.__all__, sp.optimizers) if issubclass(c, LearnedOptimizer)}
    assert set(BUILT_IN.values()) == learned
    assert all(BUILT_IN[c.kind] is c for c in learned)


# --- purity, determinism ----------------------------------------------------------------------------------------------


@every
def test_step_writes_on_nothing_and_repeats_bit_for_bit(case, family):
    problem, optimizer, x0 = small_problem(family).shifted(0.5), case.build(), start_point()
    before_x0 = x0.clone()
    state = states(problem, optimizer, x0, 3)[-1]
    assert torch.equal(x0, before_x0)
    kept_state = {k: v.clone() for k, v in tensors(state).items()}
    kept_problem = {k: v.clone() for k, v in tensors(problem).items()}
    kept_self = copy.deepcopy(vars(optimizer))
    k = state.k
    with torch.no_grad():
        first, second = optimizer.step(problem, state), optimizer.step(problem, state)
    assert state.k == k
    assert all(torch.equal(v, kept_state[name]) for name, v in tensors(state).items())
    assert all(torch.equal(v, kept_problem[name]) for name, v in tensors(problem).items())
    assert len(kept_problem) == 4  # A, b or y, lam, shift
    assert_same_attributes(vars(optimizer), kept_self)
    assert first.k == second.k == k + 1
    assert all(torch.equal(v, getattr(second, name)) for name, v in tensors(first).items())


def assert_same_attributes(now: dict, before: dict) -> None:
    assert now.keys() == before.keys()
    for name, value in now.items():
        if isinstance(value, torch.nn.Module):
            old = dict(before[name].named_parameters())
            for key, parameter in value.named_parameters():
                assert torch.equal(parameter, old[key])
                assert parameter.grad is None
        elif isinstance(value, Optimizer):
            assert_same_attributes(vars(value), vars(before[name]))
        elif name == "_parameters":
            assert_same_attributes(value, before[name])
        elif isinstance(value, Tensor):
            assert torch.equal(value, before[name])
            assert value.grad is None
        elif name == "_modules":
            assert_same_attributes(value, before[name])
        else:
            assert value == before[name], name


@every
def test_the_same_seed_gives_the_same_run(case, family):
    def run() -> tuple[Tensor, list[Tensor]]:
        torch.manual_seed(3)
        optimizer = case.make()
        weights = [p.detach() for p in optimizer.parameters()] if isinstance(optimizer, LearnedOptimizer) else []
        return path(small_problem(family), optimizer, start_point(), 5), weights

    (x1, w1), (x2, w2) = run(), run()
    assert torch.equal(x1, x2)
    assert len(w1) == len(w2)
    assert all(torch.equal(a, b) for a, b in zip(w1, w2, strict=True))


@every
def test_init_and_step_leave_the_global_random_state_alone(case, family):
    optimizer = case.build()
    before = torch.get_rng_state()
    path(small_problem(family), optimizer, start_point(), 2)
    assert torch.equal(torch.get_rng_state(), before)


# --- shapes, dtypes, devices ------------------------------------------------------------------------------------------


@every
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["f32", "f64"])
def test_shapes_and_dtypes(case, family, dtype):
    problem, optimizer = small_problem(family, dtype=dtype), case.build()  # float32 weights in both
    walked = states(problem, optimizer, start_point(dtype=dtype), 3)
    shapes = {name: value.shape for name, value in tensors(walked[0]).items()}
    assert shapes["x"] == (BATCH, N)
    assert shapes["step_size"] == (BATCH,)
    for k, state in enumerate(walked):
        assert type(state) is type(walked[0])
        assert state.k == k
        assert {name: value.shape for name, value in tensors(state).items()} == shapes
        assert {value.dtype for value in tensors(state).values() if value.is_floating_point()} == {dtype}
        assert all(torch.isfinite(value).all() for value in tensors(state).values())
        if hasattr(state, "h"):
            assert state.h.shape == state.c.shape == (2, BATCH * N, HIDDEN)


@select_pairs(lambda case: case.memory == "zeros")  # a generator draws other numbers in another precision
def test_float32_follows_float64(case, family):
    # float64 weights on a float32 problem too: the problem's precision decides
    problem, x0 = small_problem(family, dtype=torch.float32), start_point(dtype=torch.float32)
    low = path(problem, case.build(F64), x0, 5)
    high = path(problem.to(dtype=F64), case.build(F64), x0.double(), 5)
    assert low.dtype == torch.float32
    assert gap(low.double(), high) <= 2e-5


@every
def test_a_given_step_size_is_used_and_the_default_is_one_over_l(case, family):
    problem, optimizer, x0 = small_problem(family), case.build(), start_point()
    given = torch.tensor([0.1, 0.2, 0.05], dtype=F64)
    walked = states(problem, optimizer, x0, 2, step_size=given)
    assert all(torch.equal(state.step_size, given) for state in walked)
    uses_l = case.name.startswith(
        ("ista", "fista", "local-fista", "optista", "silver", "steps", "sparsa", "panoc", "go-math", "l2o-pa")
    ) or case.name.startswith(("certified", "sure"))
    default = path(problem, optimizer, x0, 2)
    assert (gap(walked[-1].x, default[-1]) > 1e-6) == uses_l
    if uses_l:
        assert torch.equal(default, path(problem, optimizer, x0, 2, step_size=1 / problem.lipschitz()))


@pytest.mark.cuda
@every
def test_same_path_on_the_gpu(case, family):
    problem, optimizer, x0 = small_problem(family), case.build(), start_point()
    expected = path(problem, optimizer, x0, 10)
    on_gpu = copy.deepcopy(optimizer)
    for part in (on_gpu, getattr(on_gpu, "optimizer", None)):  # what a certified one wraps
        if isinstance(part, LearnedOptimizer):
            part.to("cuda")
    walked = states(problem.to(device="cuda"), on_gpu, x0.cuda(), 10)
    assert all(value.is_cuda for value in tensors(walked[-1]).values())
    assert gap(torch.stack([s.x.cpu() for s in walked]), expected) <= 1e-9


# --- what does not depend on the company ------------------------------------------------------------------------------


@select_pairs(lambda case: case.memory != "paper")
def test_an_instance_alone_walks_as_in_the_batch(case, family):
    problem, optimizer, x0 = small_problem(family), case.build(), start_point()
    together = path(problem, optimizer, x0, 30)
    assert together.abs().max() < 100  # bounded (see `calm`): what follows is rounding, not chaos
    for i in range(BATCH):
        one = torch.tensor([i])
        alone = path(problem.select(one), optimizer, x0[one], 30)
        assert gap(alone, together[:, one]) <= 1e-12 * case.growth


@select_pairs(lambda case: case.memory == "zeros")
def test_renaming_the_coordinates_renames_the_path(case, family):
    problem, optimizer, x0 = small_problem(family), case.build(), start_point()
    order = torch.randperm(N, generator=seeded())
    f = problem.f
    make, rhs = (sp.lasso, f.b) if family == "lasso" else (sp.logistic, f.y)
    renamed = make(f.A[:, :, order], rhs, problem.r.lam)
    expected = path(problem, optimizer, x0, 30)[:, :, order]
    assert gap(path(renamed, optimizer, x0[:, order], 30), expected) <= 1e-12 * case.growth


@every
def test_a_shared_matrix_walks_as_its_copies(case, family):
    shared, optimizer, x0 = small_problem(family, shared=True), case.build(), start_point()
    f = shared.f
    make, rhs = (sp.lasso, f.b) if family == "lasso" else (sp.logistic, f.y)
    copies = make(f.A.expand(BATCH, -1, -1).contiguous(), rhs, shared.r.lam)
    assert shared.f.A.ndim == 2
    assert gap(path(shared, optimizer, x0, 30), path(copies, optimizer, x0, 30)) <= 1e-12 * case.growth


@every
def test_select_then_step_is_step_then_select(case, family):
    problem, optimizer, x0 = small_problem(family), case.build(), start_point()
    state = states(problem, optimizer, x0, 3)[-1]
    for index in (torch.tensor([2, 0]), torch.tensor([False, True, True])):
        with torch.no_grad():
            early = optimizer.step(problem.select(index), state.select(index))
            late = optimizer.step(problem, state).select(index)
        assert early.k == late.k == 4
        for name, value in tensors(late).items():
            assert gap(getattr(early, name), value) <= 1e-13, name


# --- shifted problems -------------------------------------------------------------------------------------------------


class MovedSmooth(Smooth):
    """f(x + t), written here and not with `Problem.shifted`."""

    def __init__(self, f: Smooth, t: Tensor) -> None:
        self.f, self.t = f, t

    @property
    def shape(self):
        return self.f.shape

    def value(self, x):
        return self.f.value(x + self.t)

    def grad(self, x):
        return self.f.grad(x + self.t)

    def lipschitz(self, exact=False):
        return self.f.lipschitz(exact)


class MovedPenalty(Penalty):
    """r(x + t)."""

    def __init__(self, r: Penalty, t: Tensor) -> None:
        self.r, self.t = r, t

    def value(self, x):
        return self.r.value(x + self.t)

    def prox(self, v, step):
        return self.r.prox(v + self.t, step) - self.t

    def subdiff(self, x):
        return self.r.subdiff(x + self.t)


@select_pairs(lambda case: case.name not in ("ada-lista", "prox-newton", "sure-general"))  # they ask for A
def test_shifted_problems_and_problems_of_ones_own(case, family):
    problem, optimizer, x0 = small_problem(family), case.build(), start_point()
    t = 3 * start_point(seed=5)
    own = Problem(MovedSmooth(problem.f, t), MovedPenalty(problem.r, t))
    steps = 16 if case.audited else 15
    walked = path(problem.shifted(t), optimizer, x0, steps)
    assert gap(walked, path(own, optimizer, x0, steps)) <= 1e-13 * case.growth
    assert gap(walked, path(problem, optimizer, x0, steps)) > 1e-3  # the shift is felt


@every
def test_moving_the_problem_moves_the_path_unless_the_method_sees_x(case, family):
    problem, optimizer, x0 = small_problem(family), case.build(), start_point()
    t = 3 * start_point(seed=5)
    moved = path(problem.shifted(t), optimizer, x0 - t, 30) + t
    assert (gap(moved, path(problem, optimizer, x0, 30)) <= 1e-12 * case.growth) == case.follows_shift


# --- solve ------------------------------------------------------------------------------------------------------------


@select_pairs(lambda case: not case.audited)  # a solve measures the points between audits too
def test_solve_walks_the_same_path(case, family):
    problem, optimizer, x0 = small_problem(family), case.build(), start_point()
    solution = sp.solve(
        problem,
        optimizer,
        x0=x0,
        max_iter=case.steps,
        tol=1e-14,
        certify=False,
        record=("objective",),
        generator=seeded(),
    )
    walked = path(problem, optimizer, x0, case.steps)
    assert torch.equal(solution.x, walked[-1])
    assert solution.history["objective"].shape == (case.steps + 1, BATCH)
    expected = torch.stack([problem.objective(x) for x in walked])
    torch.testing.assert_close(solution.history["objective"], expected, rtol=1e-13, atol=0)
    assert solution.iterations.tolist() == [case.steps] * BATCH
    assert list(solution.status) == [sp.Status.ITERATION_LIMIT] * BATCH
    assert not solution.x.requires_grad


# --- gradients --------------------------------------------------------------------------------------------------------


@every
def test_detach_keeps_the_values_and_cuts_the_history(case, family):
    problem, optimizer = small_problem(family), case.build()
    x0 = start_point().requires_grad_()
    first = optimizer.init(problem, x0, generator=seeded())
    *_, state = sp.iterate(problem, optimizer, first, 3)
    assert state.x.requires_grad
    cut = state.detach()
    assert type(cut) is type(state)
    assert cut.k == state.k == 3
    for name, value in tensors(state).items():
        assert torch.equal(getattr(cut, name), value)
        assert not getattr(cut, name).requires_grad
    assert state.x.requires_grad  # the state itself is as before
    later = optimizer.step(problem, cut)
    after = later.shown().x if case.audited else later.x
    if isinstance(getattr(optimizer, "optimizer", optimizer), LearnedOptimizer):
        assert after.requires_grad  # the weights are still reached, by the last step alone
        assert torch.autograd.grad(after.sum(), x0, allow_unused=True) == (None,)
    else:
        assert not after.requires_grad


def check_slopes(case, family, each_alone: bool) -> None:
    """The derivative of a loss over 5 steps along random directions in the weights, against central differences."""
    problem, x0 = small_problem(family), start_point()
    optimizer = calm(case.make(), q_bias=-2.0).double()  # a Q large enough to be felt; 5 steps cannot diverge

    def loss() -> Tensor:
        state = optimizer.init(problem, x0, generator=seeded())
        return sum(problem.objective(s.x).sum() for s in sp.iterate(problem, optimizer, state, 5))

    value = loss()
    value.backward()
    weights = dict(optimizer.named_parameters())
    generator = seeded()
    directions = {name: torch.randn(w.shape, generator=generator, dtype=F64) for name, w in weights.items()}
    kept = {name: w.detach().clone() for name, w in weights.items()}

    def difference(group: list[str], width: float) -> float:
        ends = []
        with torch.no_grad():
            for e in (width, -width):
                for name in group:
                    weights[name].copy_(kept[name] + e * directions[name])
                ends.append(float(loss()))
            for name in group:
                weights[name].copy_(kept[name])
        return (ends[0] - ends[1]) / (2 * width)

    for group in [[name] for name in weights] if each_alone else [list(weights)]:
        slope = sum(float((weights[name].grad * directions[name]).sum()) for name in group)
        assert abs(slope) > 1e-6, f"{group} is not felt"
        seen = []
        for width in (1e-5, 1e-6):  # a kink (relu, soft threshold) may lie inside the wider interval
            rounding = 4 * torch.finfo(F64).eps * float(value.detach()) / width
            seen.append(pytest.approx(difference(group, width), rel=1e-6, abs=rounding))
            if slope == seen[-1]:
                break
        else:
            pytest.fail(f"{group}: autograd {slope}, finite differences {seen}")


@every_learned
def test_gradient_of_all_weights_is_that_of_finite_differences(case, family):
    check_slopes(case, family, each_alone=False)


def one_of_each(case) -> bool:
    optimizer = case.make()
    return case.memory == "zeros" and getattr(optimizer, "q_shrink", QShrink.NONE) is QShrink.NONE


@pytest.mark.parametrize(("case", "family"), [p for p in LEARNED if one_of_each(p.values[0])])
def test_gradient_of_each_weight_is_that_of_finite_differences(case, family):
    check_slopes(case, family, each_alone=True)


# --- disk -------------------------------------------------------------------------------------------------------------


@every_learned
def test_save_and_load_give_the_same_optimizer_bit_for_bit(case, family, tmp_path):
    problem, optimizer, x0 = small_problem(family), case.build(), start_point()
    sp.save(optimizer, tmp_path / "model")
    again = sp.load(tmp_path / "model")
    assert type(again) is type(optimizer)
    assert again.arguments == optimizer.arguments
    ours, theirs = dict(optimizer.named_parameters()), dict(again.named_parameters())
    assert ours.keys() == theirs.keys()
    for name, weight in ours.items():
        assert weight.dtype == theirs[name].dtype
        assert torch.equal(weight, theirs[name])
    assert torch.equal(path(problem, again, x0, 5), path(problem, optimizer, x0, 5))
