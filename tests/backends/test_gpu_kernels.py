"""On a GPU: the kernels against products in double precision, and whole runs that use them against plain ones."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from engines import kernels
from sureprox.guarantee import Certified
from sureprox.guarantee.planned import estimated_step
from sureprox.kernels.certified import gpu as judge
from sureprox.kernels.lipschitz.gpu_gram import launch_largest
from sureprox.kernels.lipschitz.gpu_krylov import block_lanczos
from sureprox.kernels.lipschitz.gpu_orthonormal import gram_schmidt
from sureprox.kernels.products import gpu_extrapolated as products
from sureprox.kernels.products import gpu_gradient as normal
from sureprox.kernels.products.gpu_extrapolated import extrapolated
from sureprox.kernels.products.gpu_gradient import normal_map
from sureprox.kernels.runtime import cuda
from sureprox.kernels.support.gpu_active_set import active_set
from sureprox.kernels.support.gpu_polish import points
from sureprox.kernels.sure.gpu import SureMove
from sureprox.optimizers import FISTA, ISTA, Adam, AdamHD, load
from sureprox.problems import lasso
from sureprox.problems.stacked import Stacked
from sureprox.solve import plan as plans
from sureprox.solve.plan import plan
from sureprox.solve.reference import reference
from sureprox.solve.solution import Status
from sureprox.solve.solve import solve
from sureprox.sources import LassoFamily, LogisticFamily
from sureprox.support.newton import Attempt, Candidates

pytestmark = [pytest.mark.cuda, pytest.mark.slow, pytest.mark.filterwarnings("ignore:TensorFloat32")]
SIZES = [(1, 5, 4), (8, 250, 500), (300, 250, 500), (40, 64, 128), (9, 33, 1024), (70_000, 2, 8)]


def drawn(generator: torch.Generator, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=generator, device="cuda")


def close(ours: torch.Tensor, exact: torch.Tensor) -> None:
    torch.testing.assert_close(ours.double(), exact, rtol=0, atol=3e-6 * float(exact.abs().max()))


@pytest.mark.parametrize(("batch", "m", "n"), SIZES)
def test_gradient_from_one_read(batch, m, n):
    generator = torch.Generator("cuda").manual_seed(n)
    A, x, b = drawn(generator, batch, m, n), drawn(generator, batch, n), drawn(generator, batch, m)
    first = normal_map(A, x, b, True)
    residual = torch.einsum("bmn,bn->bm", A.double(), x.double()) - b.double()
    close(first[0], torch.einsum("bmn,bm->bn", A.double(), residual))
    close(first[1], residual.square().sum(1) / 2)
    for _ in range(20):  # a result that changes is a race
        assert all(torch.equal(*pair) for pair in zip(normal_map(A, x, b, True), first, strict=True))


@pytest.mark.parametrize(("batch", "m", "n"), [size for size in SIZES if size[2] <= 512])
@pytest.mark.parametrize("points", [1, 2, 3])
def test_images_and_next_gradients_from_one_read(batch, m, n, points):
    generator = torch.Generator("cuda").manual_seed(n)
    A, x, b = drawn(generator, batch, m, n), drawn(generator, batch, points, n), drawn(generator, batch, m)
    before, momentum = drawn(generator, batch, points, m), drawn(generator, batch, points)
    first = extrapolated(A, x, before, momentum, b)
    z = torch.einsum("bmn,bkn->bkm", A.double(), x.double()) - b.double().unsqueeze(1)
    w = z + momentum.double().unsqueeze(2) * (z - before.double())
    for ours, exact in zip(first, (z, w, torch.einsum("bmn,bkm->bkn", A.double(), w)), strict=True):
        close(ours, exact)
    for _ in range(20):
        assert all(torch.equal(*pair) for pair in zip(extrapolated(A, x, before, momentum, b), first, strict=True))


def test_largest_eigenvalue_from_one_read_per_step():
    A = drawn(torch.Generator("cuda").manual_seed(6), 64, 250, 500)
    kernel = gram_schmidt(A.device)
    ratio = block_lanczos(A, kernel).double() / torch.linalg.matrix_norm(A.double(), ord=2).square()
    assert float(ratio.min()) >= 1.005
    assert float(ratio.max()) <= 1.0101
    torch.testing.assert_close(block_lanczos(A[:5].clone(), kernel), block_lanczos(A, kernel)[:5], rtol=1e-5, atol=0)


@pytest.mark.parametrize(
    ("batch", "m", "n"), [(64, 250, 500), (300, 256, 300), (3, 900, 200), (40, 64, 128), (2000, 2, 8), (9, 120, 33)]
)
def test_largest_eigenvalue_of_small_normal_matrices(batch, m, n):
    A = drawn(torch.Generator("cuda").manual_seed(m), batch, m, n)
    A[0] *= 1e-25
    A[1] = 0
    found = launch_largest(A)
    scale = torch.ones_like(found, dtype=torch.float64)
    scale[0] = 1e-50
    exact = torch.linalg.matrix_norm(A.double() / scale.sqrt().view(-1, 1, 1), ord=2).square() * scale
    torch.testing.assert_close(found.double(), 1.01 * exact, rtol=2e-4, atol=1e-44)
    assert torch.equal(launch_largest(A), found)  # what changes is a race
    torch.testing.assert_close(launch_largest(A[:5].clone()), found[:5], rtol=1e-6, atol=0)
    problem = lasso(A[2:].contiguous(), A[2:, :, 0].contiguous(), 0.1)
    assert torch.equal(estimated_step(problem, kernels(problem)), 1 / found[2:])


def test_an_instance_whose_L_cannot_be_held_does_not_stop_the_others():
    A = drawn(torch.Generator("cuda").manual_seed(1), 8, 20, 40)
    b = A[:, :, 0].contiguous()
    A[3] *= 1e25
    solution = solve(lasso(A, b, 1.0))
    assert solution.status[3] == Status.DIVERGED
    assert solution.converged.sum() == 7


@pytest.mark.parametrize(("batch", "m", "n", "few"), [(300, 250, 500, 60), (140, 200, 300, 110), (500, 30, 20, 5)])
def test_the_polish_in_one_kernel(batch, m, n, few):
    generator = torch.Generator("cuda").manual_seed(n)
    A = drawn(generator, batch, m, n)
    x = drawn(generator, batch, n).double() * (torch.arange(n, device="cuda") < few)
    b = (A.double() @ (x + 0.01 * drawn(generator, batch, n)).unsqueeze(2)).squeeze(2).float()
    problem = lasso(A, b, drawn(generator, batch).abs() + 1)
    rows = torch.randperm(batch, generator=generator, device="cuda")
    x = x[rows]
    given = Attempt(problem, x, problem.to(dtype=torch.float64).select(rows).grad(x), rows)
    with torch.no_grad():
        ours, again = points(given), points(given)
        once = given.points()  # and once more, where a coordinate should join that was no candidate
        g = problem.to(dtype=torch.float64).select(rows).grad(once)
        plain = Attempt(problem, once, g, rows).points()
    torch.testing.assert_close(ours, plain, rtol=1e-8, atol=1e-9)
    assert torch.equal(ours, again)  # what changes is a race


def test_image_and_gradient_from_one_read():
    generator = torch.Generator("cuda").manual_seed(3)
    problem = lasso(drawn(generator, 40, 64, 128), drawn(generator, 40, 64), 0.1)
    x = drawn(generator, 40, 1, 128)
    for moved in (problem, problem.shifted(x[:, 0] + 1)):
        with torch.no_grad():
            ours = Stacked(moved, 1, kernels(moved, certify=True)).look(x)
            plain = Stacked(moved, 1).look(x)
        for mine, theirs in zip(ours, plain, strict=True):
            close(mine, theirs.double())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("batch", "m", "n"), [(1, 5, 4), (8, 250, 500), (300, 250, 500), (40, 64, 128), (2000, 2, 8)])
def test_certificates_from_one_read(batch, m, n, dtype):
    generator = torch.Generator("cuda").manual_seed(n)
    A, b = drawn(generator, batch, m, n), drawn(generator, batch, m)
    lam, x = drawn(generator, batch).abs() * A[:, :, 0].abs().amax(1), drawn(generator, batch, n).double()
    x = x * (x.abs() > 1)
    for matrix in (A, A[0].contiguous()):
        problem = lasso(matrix.to(dtype), b.to(dtype), lam.to(dtype))
        with torch.no_grad():
            certificate, exact = kernels(problem).certificate, problem.to(dtype=torch.float64).certificate(x)
            ours, again = certificate(problem, x), certificate(problem, x)
        for name in ("objective", "gap", "kkt", "grad"):
            value = getattr(ours, name)
            torch.testing.assert_close(value, getattr(exact, name), rtol=1e-11, atol=1e-11)
            assert torch.equal(value, getattr(again, name))  # what changes is a race


@pytest.mark.parametrize(("batch", "m", "width"), [(300, 250, 90), (5, 400, 160), (40, 30, 7), (150, 600, 224)])
def test_active_sets_in_one_kernel(batch, m, width):
    generator = torch.Generator("cuda").manual_seed(width)
    A, x = drawn(generator, batch, m, width).double(), drawn(generator, batch, width).double()
    on = drawn(generator, batch, width) > 0
    x, lam = x * on, 40 + drawn(generator, batch, width).double().abs()
    g = (A.mT @ (A @ x.unsqueeze(2) - 3 * drawn(generator, batch, m).double().unsqueeze(2))).squeeze(2)
    given = Candidates(A.mT @ A, x, g, lam, -lam * x.sign(), lam, on)
    with torch.no_grad():
        ours, again, exact = active_set(given), active_set(given), given.active_set()
    torch.testing.assert_close(ours, exact, rtol=1e-9, atol=1e-9)
    assert torch.equal(ours, again)


@pytest.mark.parametrize("n", [120, 122, 600])  # for the last two, steps read what was made of b: nothing is kept
def test_recorded_steps_serve_the_next_problem(n):
    generator = torch.Generator("cuda").manual_seed(3)
    family, optimizer = LassoFamily(m=60, n=n, nonzeros=12), load("sure/lasso", "cuda")
    problems = [family.sample(40, generator) for _ in range(2)]
    exact = [reference(problem.to(dtype=torch.float64)).objective for problem in problems]
    recorded = []
    for place in (0, 1, 0, 1):
        solution = solve(problems[place], optimizer, engine="kernels")
        assert solution.engine == "kernels"
        assert bool(solution.converged.all())
        assert bool(((solution.objective - exact[place]) <= 1.01e-6 * exact[place]).all())
        with plan(problems[place], optimizer, True, "kernels").stepping() as stepping:
            recorded.append(stepping._replay)
    assert all(replay is recorded[0] for replay in recorded) is (n == 120)
    with torch.no_grad():  # the numbers of a problem may change between two solves
        problems[1].f.b.mul_(2.0)
    moved = solve(problems[1], optimizer, engine="kernels")
    value = reference(problems[1].to(dtype=torch.float64)).objective
    assert bool(((moved.objective - value).abs() <= 1.01e-6 * value).all())


OPTIMIZERS = {
    "ista": ISTA,
    "restarted": lambda: FISTA(restart=True),
    "go": lambda: load("go-math-l2o/lasso", "cuda"),
    "sure": lambda: load("sure/lasso", "cuda"),
    "sure-light": lambda: load("sure/lasso-light", "cuda"),
    "conjugate": lambda: load("sure/logistic", "cuda"),
    "certified go": lambda: Certified(load("go-math-l2o/lasso", "cuda")),
    "certified sure": lambda: Certified(load("sure/lasso", "cuda")),
    "certified fista": lambda: Certified(FISTA()),
}


@pytest.mark.parametrize("engine", ["kernels", "compiled"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_runs_are_the_plain_ones(name, engine):
    """50 steps, more than a ring of graphs, then a second problem with another batch size."""
    family = LassoFamily(m=60, n=120, nonzeros=12)
    plain = OPTIMIZERS[name]()
    for batch in (16, 300):
        generator = torch.Generator("cuda").manual_seed(batch)
        problem, x0 = family.sample(batch, generator), family.start(batch, generator)
        options = {"step_size": problem.step_size()}
        draws = [torch.Generator("cuda").manual_seed(5) for _ in range(2)]
        with torch.no_grad(), plan(problem, plain, engine=engine).stepping() as quick:
            both = zip((quick, plain), draws, strict=True)
            ours, theirs = (o.init(problem, x0, generator=g, **options) for o, g in both)
            ours, theirs = quick.step(problem, ours), plain.step(problem, theirs)
            first = apart(ours.x, theirs.x)  # where no error has had time to grow, and the optimizer not to repair it
            for _ in range(49):
                ours, theirs = quick.step(problem, ours), plain.step(problem, theirs)
        assert apart(ours.x, theirs.x) <= 1e-5
        assert first <= (1e-3 if "go" in name else 1e-5)  # the network of GO-Math-L2O runs in tf32


def apart(ours: torch.Tensor, theirs: torch.Tensor) -> float:
    """The largest relative distance of two points of an instance."""
    distance = torch.linalg.vector_norm(ours - theirs, dim=1) / torch.linalg.vector_norm(theirs, dim=1)
    return float(distance.max())


def test_the_kernels_are_in_use():
    generator = torch.Generator("cuda").manual_seed(0)
    problem = LassoFamily(m=60, n=120, nonzeros=12).sample(16, generator)
    sure = load("sure/lasso", "cuda")
    alone, certified = kernels(problem, sure), kernels(problem, sure, certify=True)
    assert isinstance(alone.move, SureMove)
    assert alone.gradient is normal.gradient
    assert (certified.follow, certified.ahead) == (judge.follow, products.extrapolate)
    assert certified.points is points


def test_sure_on_logistic_problems():
    family, generator = LogisticFamily(m=60, n=40, nonzeros=8), torch.Generator("cuda").manual_seed(0)
    problem, x0 = family.sample(16, generator), family.start(16, generator)
    plain = load("sure/logistic", "cuda")
    ours = theirs = plain.init(problem, x0)
    with torch.no_grad(), plan(problem, plain, engine="kernels").stepping() as quick:
        for _ in range(10):
            ours, theirs = quick.step(problem, ours), plain.step(problem, theirs)
    torch.testing.assert_close(problem.objective(ours.x), problem.objective(theirs.x), rtol=2e-4, atol=0)


def test_a_default_solve_runs_plain_while_kernels_are_built_and_with_them_afterwards(tmp_path, monkeypatch):
    monkeypatch.setenv("SUREPROX_CACHE", str(tmp_path))
    monkeypatch.setattr(cuda, "_loaded", set())
    monkeypatch.setattr(cuda, "_builders", {})
    monkeypatch.setattr(plans, "_plans", plans._Plans(4))
    cuda.kernel.cache_clear()
    problem = LassoFamily(m=60, n=120, nonzeros=12).sample(16, torch.Generator("cuda").manual_seed(0))
    first = solve(problem)
    assert first.engine == "plain"
    for builder in list(cuda._builders.values()):
        builder.join(120)
    second = solve(problem)
    assert second.engine == "kernels"
    assert bool(first.converged.all() & second.converged.all())
    torch.testing.assert_close(first.objective, second.objective, rtol=2e-6, atol=0)


def test_two_threads_solve_at_the_same_time():
    family = LassoFamily(m=60, n=120, nonzeros=12)
    problems = [family.sample(64, torch.Generator("cuda").manual_seed(k)) for k in (1, 2)]
    alone = [solve(problem, engine="kernels") for problem in problems]
    with ThreadPoolExecutor(2) as pool:
        for _ in range(5):
            together = list(pool.map(lambda problem: solve(problem, engine="kernels"), problems))
            for ours, expected in zip(together, alone, strict=True):
                assert torch.equal(ours.x, expected.x)


@pytest.mark.parametrize("make", [Adam, AdamHD])
def test_steps_that_count_are_not_replayed(make):
    problem = LassoFamily(m=60, n=120, nonzeros=12).sample(8, torch.Generator("cuda").manual_seed(0))
    ours, plain = (solve(problem, make(), max_iter=30, certify=False, engine=engine) for engine in ("auto", "plain"))
    torch.testing.assert_close(ours.objective, plain.objective, rtol=1e-4, atol=0)
