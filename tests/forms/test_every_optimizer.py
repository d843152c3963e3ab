"""Every optimizer on every form: finite points that do not depend on the rest of the batch, or one line why not."""

import inspect
from collections.abc import Callable

import pytest
import torch

import sureprox as sp
from form_cases import MATRICES, PAIRS, B, M, problem
from hardening import FULL
from optimizer_cases import calm
from sureprox.optimizers import (
    FISTA,
    ISTA,
    L2ODM,
    L2OPA,
    PANOC,
    AdaLISTA,
    Adam,
    AdamHD,
    GoMathL2O,
    LearnedOptimizer,
    LocalFISTA,
    Optimizer,
    OptISTA,
    ProxNewton,
    RNNProp,
    Silver,
    SpaRSA,
    StepSchedule,
    Sure,
)

STEPS = 6
OPTIMIZERS: dict[str, Callable[[], Optimizer]] = {
    "ista": ISTA,
    "fista": FISTA,
    "restarted fista": lambda: FISTA(restart=True),
    "local fista": LocalFISTA,
    "adam": Adam,
    "adam-hd": AdamHD,
    "panoc": PANOC,
    "sparsa": SpaRSA,
    "optista": lambda: OptISTA(STEPS),
    "silver": Silver,
    "schedule": lambda: StepSchedule([1.5, 0.8], [0.1, 0.4]),
    "prox-newton": lambda: ProxNewton(10),
    "go-math-l2o": lambda: calm(GoMathL2O(hidden=5)),
    "l2o-pa": lambda: calm(L2OPA(hidden=5)),
    "l2o-dm": lambda: calm(L2ODM(hidden=5)),
    "rnnprop": lambda: calm(RNNProp(hidden=5)),
    "ada-lista": lambda: calm(AdaLISTA(M, layers=3)),
    "sure": lambda: calm(Sure(coordinate=4, instance=6)),
    "general sure": lambda: calm(Sure(coordinate=4, instance=6, features="general")),
}
PLAIN = (
    "ista",
    "fista",
    "restarted fista",
    "local fista",
    "panoc",
    "sparsa",
    "optista",
    "silver",
    "schedule",
)  # proximal steps, for any form
FORMS = [
    (loss, penalty, MATRICES[k % len(MATRICES)])
    for k, (loss, penalty) in enumerate(PAIRS)
    if FULL or k % 4 == k // 8 % 4  # a quarter of them, other penalties for each loss
]


def run(name: str, form: tuple[str, str, str], certify: bool, dtype: torch.dtype, index: list[int]) -> sp.Solution:
    """That of the instances in `index`, or InputError."""
    optimizer = OPTIMIZERS[name]()
    if isinstance(optimizer, LearnedOptimizer):
        optimizer = optimizer.to(dtype)
    part = problem(*form, dtype=dtype).select(torch.tensor(index))
    return sp.solve(part, optimizer, max_iter=STEPS, tol=1e-12, certify=certify, check_every=3, engine="plain")


@pytest.mark.parametrize("certify", [True, False], ids=["certified", "alone"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_it_runs_or_says_in_one_line_why_not(name, certify):
    ran = refused = 0
    messages: set[str] = set()
    for form in FORMS:
        for dtype in (torch.float64, torch.float32):
            try:
                solution = run(name, form, certify, dtype, list(range(B)))
            except sp.InputError as error:
                refused += 1
                messages.add(str(error))
                continue
            ran += 1
            x, F = solution.x, solution.objective
            assert torch.isfinite(x).all(), form
            assert torch.isfinite(F).all(), form
            assert not torch.isnan(solution.gap).any(), form
            assert x.dtype in (dtype, torch.float64)
            assert not (solution.status == sp.Status.DIVERGED).any(), form
            zero = problem(*form).objective(torch.zeros_like(x, dtype=torch.float64))
            assert (zero > F).any() or name.startswith(("l2o", "rnn", "go", "ada")), form
            if dtype == torch.float64 and ran % 3 == 0:
                for i in range(B):
                    alone = run(name, form, certify, dtype, [i])
                    assert float(alone.objective[0]) == pytest.approx(float(F[i]), rel=1e-9), form
    assert all("\n" not in message and len(message) > 30 for message in messages)
    assert ran > 0 or name == "ada-lista"  # for LASSO without weights and offset, which none of these is
    assert refused == 0 or name not in PLAIN


def test_every_optimizer_is_here():
    public = {getattr(sp.optimizers, name) for name in sp.optimizers.__all__}
    kinds = {kind for kind in public if inspect.isclass(kind) and issubclass(kind, Optimizer)}
    kinds = {kind for kind in kinds if not inspect.isabstract(kind)}
    assert kinds - {type(make()) for make in OPTIMIZERS.values()} == set()


@pytest.mark.parametrize("name", ["sure", "general sure", "go-math-l2o"])
def test_what_needs_the_subdifferential_of_a_coordinate_says_so_about_groups(name):
    with pytest.raises(sp.InputError) as caught:
        run(name, ("huber", "groups", "own"), True, torch.float64, [0])
    assert "FISTA" in str(caught.value)
    assert "\n" not in str(caught.value)
