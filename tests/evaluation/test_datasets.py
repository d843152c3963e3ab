"""Where the problems of the figures come from, and their optimal values."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import sureprox as sp
from evaluation_cases import CPU
from helpers import labels, normal
from sureprox.evaluation import datasets
from sureprox.evaluation.datasets import Dataset, draw, solved

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"


def stand_in(monkeypatch: pytest.MonkeyPatch, problem: sp.Problem) -> None:
    """Every real data set is this problem."""
    data = SimpleNamespace(name="Made up", source="this test", problem=problem)
    module = SimpleNamespace(ionosphere=lambda: data, patches=lambda dictionary: data)
    monkeypatch.setattr(datasets, "import_module", lambda name: module)


def test_the_same_seed_gives_the_same_problems() -> None:
    one, again, other = (draw("lasso", 2, seed) for seed in (0, 0, 1))
    assert one.fingerprint == again.fingerprint != other.fingerprint
    assert one.problem.f.A.shape == (2, 250, 500)
    assert draw("logistic", 2, 0).problem.f.A.shape == (2, 1000, 50)


def test_problems_are_exact_in_float32() -> None:
    drawn = draw("lasso", 2, 0)
    for tensor in (*drawn.problem.tensors(), drawn.start):
        assert tensor.dtype == torch.float64
        assert torch.equal(tensor, tensor.float().double())


def test_no_problem_of_training_comes_back() -> None:
    """Training draws from seed 0 on; the first problem of the same seed must be another one."""
    family = sp.problems.LassoFamily()
    training = family.sample(2, torch.Generator().manual_seed(0))
    assert not torch.allclose(draw("lasso", 2, 0).problem.f.A[0].float(), training.f.A[0])


def test_optimal_values_are_kept_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = draw("logistic", 3, 0)
    first = solved(drawn, tmp_path, CPU)
    assert first.precision <= 1e-12
    torch.testing.assert_close(first.best, sp.reference(drawn.problem).objective, rtol=1e-12, atol=0)
    monkeypatch.setattr(datasets, "reference", lambda *_: pytest.fail("solved again"))
    again = solved(draw("logistic", 3, 0), tmp_path, CPU)
    assert torch.equal(first.best, again.best)
    assert again.precision == first.precision


def test_optimal_values_do_not_depend_on_the_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = solved(draw("logistic", 3, 0), tmp_path / "one", CPU)
    monkeypatch.setattr(datasets, "REFERENCE_CHUNK", 2)
    torch.testing.assert_close(
        solved(draw("logistic", 3, 0), tmp_path / "two", CPU).best, whole.best, rtol=2e-12, atol=0
    )


@pytest.mark.parametrize("batched", [False, True])
def test_one_problem_from_many_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batched: bool) -> None:
    A = normal(1, 30, 6) if batched else normal(30, 6)
    stand_in(monkeypatch, sp.logistic(A, labels(1, 30), 0.1))
    data = solved(draw("ionosphere", 5, 0), tmp_path, CPU)
    assert (data.problem.batch, data.problem.n) == (5, 6)
    assert data.problem.f.A.shape == (30, 6)
    assert len(set(data.best.tolist())) == 1
    assert len({tuple(row) for row in data.start.tolist()}) == 5
    assert data.instances.origin == "Made up: this test"
    x = data.start[:1].expand(5, 6)
    assert len(set(data.problem.objective(x).tolist())) == 1


def test_of_many_patches_some_are_taken_evenly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    b = normal(10, 4)
    stand_in(monkeypatch, sp.lasso(normal(4, 8), b, 0.5))
    part: Dataset = solved(draw("patches", 5, 0), tmp_path, CPU)
    torch.testing.assert_close(part.problem.f.b, b[::2].float().double())
    assert draw("patches", 50, 0).problem.batch == 10


@pytest.mark.skipif(not DATA.is_dir(), reason="the real data, ../shared/data, are not here")
@pytest.mark.parametrize("source", ["ionosphere", "spambase", "patches"])
def test_real_data(tmp_path: Path, source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUREPROX_DATA", str(DATA))
    monkeypatch.setenv("SUREPROX_CACHE", str(tmp_path / "cache"))
    data = solved(draw(source, 20, 0), tmp_path, CPU)
    assert data.problem.batch == 20
    assert data.precision <= 1e-12


def test_f_star_of_balls_is_that_of_the_projection(tmp_path: Path) -> None:
    """min 1/2 |x - b|^2, |x_g| <= 1: each group of b is cut to length one."""
    b = normal(8, 6)
    problem = sp.Problem(
        sp.losses.LeastSquares(torch.eye(6, dtype=torch.float64), b),
        sp.problems.GroupBall([[0, 1], [2, 3], [4, 5]], 1.0),
    )
    found = solved(datasets.Instances("balls", "this test", problem, torch.zeros_like(b)), tmp_path, CPU)
    beyond = (b.view(8, 3, 2).norm(dim=2) - 1).clamp(min=0)
    assert (beyond > 0).any()
    assert (beyond == 0).any()
    torch.testing.assert_close(found.best, 0.5 * beyond.square().sum(1), rtol=1e-10, atol=1e-12)
