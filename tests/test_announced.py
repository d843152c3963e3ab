"""A solve says once, where the user calls it, what has not converged; nothing inside the package does."""

import pickle
import warnings

import pytest
import torch
from sklearn.exceptions import ConvergenceWarning as TheirWarning

import sureprox as sp
from helpers import F64, normal
from sureprox.base.defaults import MAX_ITER
from sureprox.cli.problem_commands import solve as solve_command
from sureprox.many import solve_many
from sureprox.problems.penalties import Zero
from sureprox.sklearn import Lasso

pytestmark = pytest.mark.filterwarnings("error::sureprox.ConvergenceWarning")
A, b = normal(20, 40), normal(3, 20, seed=1)
WEIGHTS = torch.tensor([100.0, 0.01, 0.02], dtype=F64)  # the first solution is zero
HARD = sp.lasso(A, b, WEIGHTS)


def test_one_warning_counts_the_unconverged_and_names_the_worst_gap():
    with pytest.warns(sp.ConvergenceWarning) as seen:
        solution = sp.solve(HARD, sp.optimizers.ISTA(), max_iter=3, tol=1e-5, certify=False)
    worst = float((solution.gap / solution.objective)[1:].max())
    assert solution.converged.tolist() == [True, False, False]
    assert [str(warning.message) for warning in seen] == [
        f"2 of 3 problems did not converge within 3 iterations (worst relative gap {worst:.1e}, tol 1e-05); "
        "raise max_iter or tol, or rescale the data; .converged shows which"
    ]
    assert seen[0].filename == __file__


def test_nothing_is_said_where_all_converged():
    sp.solve(HARD)
    sp.path(HARD, [1.0, 0.1])
    sp.tv_denoise(normal(2, 30), 0.1, dims=1)


def test_paths_and_denoising_warn_once_for_the_whole_call():
    with pytest.warns(sp.ConvergenceWarning, match="of 6 problems did not converge within 2 iterations") as seen:
        sp.path(HARD, [1.0, 0.01], max_iter=2)
    assert len(seen) == 1
    with pytest.warns(sp.ConvergenceWarning, match="of 2 problems .* within 1 iterations .*tol 0.0001") as seen:
        sp.tv_denoise(normal(2, 30), 0.5, dims=1, max_iter=1)
    assert len(seen) == 1


def test_without_a_gap_the_residual_is_named_and_what_diverged_is_counted():
    class Free(Zero):
        """Zero, but a class of its own: no duality gap is known for it."""

    with pytest.warns(sp.ConvergenceWarning, match="largest KKT residual"):
        sp.solve(sp.Problem(sp.losses.LeastSquares(A, b), Free()), max_iter=2)
    steps = torch.full((3,), 1e30, dtype=F64)
    with pytest.warns(sp.ConvergenceWarning, match="diverged; .status shows which"):
        sp.solve(HARD, sp.optimizers.ISTA(), max_iter=50, step_size=steps, certify=False)


def test_many_problems_warn_once_at_the_end(tmp_path):
    expected = r"2 of 3 problems did not converge \(worst relative gap .*\); raise .*; .counts says how they ended"
    for call in (
        lambda: [list(stream) for stream in [solve_many(HARD, max_iter=1)] * 2],
        lambda: solve_many(HARD, max_iter=1).gathered(),
        lambda: solve_many(HARD, max_iter=1, out=tmp_path / "out"),
    ):
        with pytest.warns(sp.ConvergenceWarning, match=expected) as seen:
            call()
        assert [warning.filename for warning in seen] == [__file__]
    list(solve_many(HARD))


def test_it_can_be_ignored():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sp.ConvergenceWarning)
        sp.solve(HARD, max_iter=1)


def test_what_looks_at_the_status_itself_is_silent():
    """Estimators have scikit-learn's warning, `reference` goes on until it is exact."""
    with pytest.warns(TheirWarning):
        Lasso(alpha=1e-3, max_iter=1).fit(A.numpy(), b[0].numpy())
    sp.reference(sp.lasso(A, b, 1.0), sweep=10)


def test_python_and_the_command_line_iterate_equally_long():
    import inspect

    for function in (sp.solve, solve_many, sp.tv_denoise, solve_command):
        assert inspect.signature(function).parameters["max_iter"].default == MAX_ITER


def test_the_functions_that_warn_are_those_that_they_call():
    assert pickle.loads(pickle.dumps(sp.solve)) is sp.solve
    assert sp.solve.__doc__.startswith("Minimise F = f + r")


def test_a_solution_says_what_became_of_it():
    with pytest.warns(sp.ConvergenceWarning):
        lines = repr(sp.solve(HARD, sp.optimizers.FISTA(), max_iter=1, engine="plain")).splitlines()
    assert lines[0] == "Solution of 3 problems in 40 unknowns: 2 iteration_limit, 1 converged"
    assert lines[1] == "  iterations    0 to 1"
    assert lines[2].startswith("  relative gap  at most ")
    assert lines[3].startswith("  nonzeros      0 to ")
    assert lines[-1] == "  engine        plain, float64 on cpu"
    assert len(lines) == 6


def test_optimizers_say_how_they_were_made():
    assert repr(sp.optimizers.FISTA(restart=True)) == "FISTA(restart=True)"
    assert repr(sp.optimizers.ISTA()) == "ISTA()"
    assert repr(sp.load("sure/lasso")).startswith(
        "Sure(coordinate=8, instance=32, conjugate=False, features='l1'), 7,942 weights, "
    )
