"""One contract for every operation, engine and form: what a plan computes is what plain PyTorch computes."""

import pytest
import torch

import sureprox as sp
from drawn_forms import BLOCKS, BOUNDED, FORMS, OTHERS, SMOOTH, drawn, start
from engines import kernels, walked
from sureprox.guarantee import Certified, CertifiedCheap
from sureprox.optimizers import FISTA, ISTA, L2OPA, GoMathL2O, Sure

TOLERANCE = {torch.float32: 3e-4, torch.float64: 1e-10}
OPTIMIZERS = {
    "ista": ISTA,
    "fista": lambda: FISTA(restart=True),
    "sure": Sure,
    "sure light": lambda: Sure(coordinate=0, conjugate=True),
    "sure general": lambda: Sure(features="general"),  # for which there is no kernel
    "go": GoMathL2O,
    "l2o-pa": L2OPA,
}


def close(ours: torch.Tensor, plain: torch.Tensor, dtype: torch.dtype, scale: float = 0.0) -> None:
    size = max(float(plain.abs().max()), scale, 1e-3)
    assert float((ours - plain).abs().max()) <= TOLERANCE[dtype] * size


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", [*FORMS, *OTHERS])
@pytest.mark.parametrize("seed", range(4))
def test_gradients_certificates_and_estimates(name, seed, dtype):
    problem = drawn(name, seed, dtype)
    found, x = kernels(problem), start(problem, seed)
    exact = problem.to(dtype=torch.float64)
    if found.gradient is not None:
        close(found.gradient(problem, x).double(), exact.grad(x.double()), dtype)
    if found.certificate is not None:
        ours, plain = found.certificate(problem, x.double()), exact.certificate(x.double())
        for part in ("objective", "gap", "kkt", "grad"):
            torch.testing.assert_close(getattr(ours, part), getattr(plain, part), rtol=1e-11, atol=1e-11)
    if found.largest is not None:
        L, truth = problem.f.lipschitz(largest=found.largest).double(), exact.lipschitz(exact=True)
        assert bool(((1.0101 * truth >= L) & (0.99 * truth <= L)).all())


STEPS = [(optimizer, name) for optimizer in OPTIMIZERS for name in (*FORMS, *SMOOTH)]
STEPS += [(optimizer, name) for optimizer in ("ista", "fista", "sure") for name in BOUNDED]
STEPS += [("fista", name) for name in BLOCKS]


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(("optimizer", "name"), STEPS)
def test_steps(name, optimizer, dtype):
    """Each from a common state: where rounding decides, paths may part for a while."""
    for seed in range(3 if name in FORMS else 2):
        torch.manual_seed(seed)
        problem, method = drawn(name, seed, dtype), OPTIMIZERS[optimizer]()
        with torch.no_grad():
            state = method.init(problem, start(problem, seed))
        scale = float(state.x.abs().max())
        for _ in range(3):
            ours, state = walked(method, problem, state, 1), walked(method, problem, state, 1, "plain")
            close(ours.x, state.x, dtype, scale)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("guarantee", [Certified, CertifiedCheap])
def test_guaranteed_steps(name, guarantee, dtype):
    for seed in range(3):
        torch.manual_seed(seed)
        problem, method = drawn(name, seed, dtype), guarantee(Sure())
        with torch.no_grad():
            state = method.init(problem, start(problem, seed))
        scale = float(state.x.abs().max())
        for _ in range(12):  # one of them is a step of FISTA's in the cheap guarantee
            ours, state = walked(method, problem, state, 1), walked(method, problem, state, 1, "plain")
            close(ours.x, state.x, dtype, scale)
            close(ours.step_size, state.step_size, dtype)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", [*FORMS, *OTHERS])
def test_answers(name, dtype):
    for seed in range(3 if name in FORMS else 1):
        problem = drawn(name, seed, dtype)
        plain, ours = (sp.solve(problem, tol=1e-6, engine=engine) for engine in ("plain", "kernels"))
        both = plain.converged & ours.converged
        assert torch.equal(plain.converged, ours.converged)
        scale = problem.to(dtype=torch.float64).scale()[0][both]  # F at 0: below a millionth of it all is zero
        error = (ours.objective - plain.objective)[both].abs()
        assert bool((error <= 2e-6 * plain.objective[both] + 1e-11 * scale).all())


def test_the_cases_reach_kernels():
    made = [kernels(drawn(name, 1, torch.float32), Sure(), True) for name in FORMS]
    reached = {part for found in made for part, value in vars(found).items() if value is not None}
    assert reached >= {"gradient", "move", "step", "look", "ahead", "compare", "follow", "certificate", "largest"}
    assert "points" in reached
