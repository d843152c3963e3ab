"""The solvers in benchopt/, run by benchopt itself on benchmarks with the interface of the public ones."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import Lasso, LogisticRegression

ROOT = Path(__file__).parents[1]
NAMES = ("lasso", "logreg_l1")

if importlib.util.find_spec("benchopt") is None or importlib.util.find_spec("benchopt").origin is None:
    pytest.skip("benchopt is not installed: pip install benchopt", allow_module_level=True)

pd = pytest.importorskip("pandas", reason="benchopt is not installed: its results need pandas")


@pytest.fixture(scope="module")
def benchmarks(tmp_path_factory) -> dict[str, Path]:
    """The tiny benchmarks, with our solvers copied to where benchopt/README.md says."""
    home = tmp_path_factory.mktemp("benchmarks")
    for name in NAMES:
        shutil.copytree(ROOT / "tests" / "tiny_benchmarks" / name, home / name)
        shutil.copytree(ROOT / "benchopt" / f"benchmark_{name}" / "solvers", home / name / "solvers")
    return {name: home / name for name in NAMES}


def benchopt(*arguments: str | Path) -> str:
    """The output of `benchopt ...`, which must succeed; run as a user would, without the shape checks of this suite."""
    environment = {name: value for name, value in os.environ.items() if name != "SUREPROX_CHECK_SHAPES"}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment.get('PATH', '')}"
    environment["PYTHONPATH"] = str(ROOT / "src")
    command = [sys.executable, "-m", "benchopt", *map(str, arguments)]
    result = subprocess.run(command, cwd=ROOT.parent, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def data(name: str, form: str) -> tuple[np.ndarray, np.ndarray]:
    path = ROOT / "tests" / "tiny_benchmarks" / name / "datasets" / "simulated.py"
    spec = importlib.util.spec_from_file_location(f"tiny_{name}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made = module.Dataset.get_data(SimpleNamespace(form=form))
    return made["X"].toarray() if sparse.issparse(made["X"]) else made["X"], made["y"]


def best_lasso(form: str, intercept: bool) -> float:
    """F*, as scikit-learn finds it."""
    X, y = data("lasso", form)
    lmbd = 0.1 * abs(X.T @ (y - y.mean() if intercept else y)).max()
    model = Lasso(alpha=lmbd / len(y), fit_intercept=intercept, tol=1e-14, max_iter=10**6).fit(X, y)
    return np.sum((y - model.predict(X)) ** 2) / 2 + lmbd * abs(model.coef_).sum()


def best_logistic(form: str) -> float:
    X, y = data("logreg_l1", form)
    lmbd = 0.1 * abs(X.T @ y).max() / 2
    model = LogisticRegression(
        C=1 / lmbd, l1_ratio=1, solver="liblinear", fit_intercept=False, tol=1e-12, max_iter=10**5, random_state=0
    ).fit(X, y)
    return np.logaddexp(0, -y * (X @ model.coef_[0])).sum() + lmbd * abs(model.coef_).sum()


def curves(benchmark: Path):
    """The table of all evaluations, and what benchopt printed."""
    printed = benchopt("run", benchmark, "-n", "60", "-r", "1", "--no-plot", "--no-html")
    (found,) = benchmark.glob("outputs/*.parquet")
    return pd.read_parquet(found), printed


def test_lasso_reaches_the_optimum_of_scikit_learn(benchmarks) -> None:
    table, printed = curves(benchmarks["lasso"])
    runs = table.groupby(["p_dataset_form", "p_obj_fit_intercept", "p_solver_optimizer"])["objective_value"].min()
    assert len(runs) == 12
    for (form, intercept, _), value in runs.items():
        assert value == pytest.approx(best_lasso(form, bool(intercept)), rel=1e-8)
    assert printed.count("sureprox needs the entries of X, not an operator") == 6


def test_logistic_reaches_the_optimum_of_scikit_learn(benchmarks) -> None:
    table, _ = curves(benchmarks["logreg_l1"])
    runs = table.groupby(["p_dataset_form", "p_solver_optimizer"])["objective_value"].min()
    assert len(runs) == 6
    for (form, _), value in runs.items():
        assert value == pytest.approx(best_logistic(form), rel=1e-8)


@pytest.mark.parametrize("name", NAMES)
def test_conventions_hold_as_benchopt_checks_them(benchmarks, name) -> None:
    printed = benchopt("test", benchmarks[name], "--skip-install", "-q")
    assert "passed" in printed
    assert "failed" not in printed
