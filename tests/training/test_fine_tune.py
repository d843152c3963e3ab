"""`fine_tune` and `sureprox train --problems`: what is trained on, what is judged, what is written."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import sureprox as sp
from helpers import refused
from sureprox.optimizers import Sure
from sureprox.training import fine_tune
from sureprox.training.fine_tuning import StoppedError, tuning
from sureprox.training.given import GivenProblems
from sureprox.training.goal import LONG, TOO_SLOW, inner, log_gap, solved_problems

SHORT = {"batches": 3, "segment": 4, "batch": 6, "length": 8, "validate_every": 3}


def spikes(count: int = 24, width: float = 1.5) -> sp.Problem:
    """Blurred spikes, x >= 0: an operator, so that no solve is finished on the support."""
    generator = torch.Generator().manual_seed(0)
    kernel = torch.exp(-(torch.linspace(-2, 2, 7, dtype=torch.float64).square()) * width)
    blur = sp.operators.Convolution(kernel / kernel.sum(), (32,))
    truth = torch.rand(count, 32, generator=generator, dtype=torch.float64)
    blurred = blur.forward(torch.where(truth > 0.9, 5 * truth, 0.0))
    noise = torch.randn(blurred.shape, generator=generator, dtype=torch.float64)
    f = sp.losses.LeastSquares(blur, blurred + 0.02 * noise)
    return sp.Problem(f, sp.penalties.Separable(0.6, low=0.0))


def untrained() -> Sure:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Sure(coordinate=3, instance=4, features="general")


def test_untrained_weights_learn_and_are_written(tmp_path: Path) -> None:
    problem = spikes(60)
    changes = SHORT | {"batches": 30, "segment": 8, "batch": 12, "learning_rate": 0.02, "validate_every": 10}
    found = fine_tune(problem, untrained(), tmp_path, changes=changes)
    assert found.accepted
    assert found.gain > 1.1
    assert found.trials["tuned"].median < found.trials["before"].median
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["accepted"] is True
    assert report["held_out"] == 15
    again = sp.solve(problem, str(tmp_path / "model"))
    assert again.converged.all()
    assert sp.optimizers.read_card(tmp_path / "model").family["form"] == "LeastSquares + Separable"
    assert "held-out problems: accepted" in str(found)


def test_weights_that_are_no_better_are_not_written(tmp_path: Path) -> None:
    (tmp_path / "model.json").write_text("of another run")
    found = fine_tune(spikes(), "sure", tmp_path, changes=SHORT | {"learning_rate": 1e-12})
    assert not found.accepted
    assert found.gain == pytest.approx(1.0, abs=0.02)
    assert not list(tmp_path.glob("model*"))
    assert json.loads((tmp_path / "report.json").read_text())["accepted"] is False
    before = sp.load("sure").state_dict()
    assert all(torch.equal(value, before[name]) for name, value in found.optimizer.state_dict().items())


def test_nothing_is_trained_on_what_judges(monkeypatch) -> None:
    seen = {}

    def spy(optimizer, family, config, *rest, **options):
        seen["train"], seen["validation"] = family.problem, family.validation
        raise StoppedError("enough")

    monkeypatch.setattr("sureprox.training.fine_tuning.train", spy)
    problem = spikes(40)
    with pytest.raises(StoppedError):
        fine_tune(problem)
    rows = [tuple(row) for part in seen.values() for row in part.f.b.tolist()]
    assert len(rows) == len(set(rows)) == 30  # a quarter of 40 is held out
    assert set(rows) < {tuple(row) for row in problem.f.b.tolist()}


def test_hard_problems_are_kept_with_their_solutions() -> None:
    """Two columns that are nearly equal: restarted FISTA needs more than `TOO_SLOW` iterations."""
    generator = np.random.default_rng(0)
    A = generator.standard_normal((30, 12))
    A[:, 1::2] = A[:, ::2] + 0.03 * generator.standard_normal((30, 6))
    problem = sp.lasso(A, generator.standard_normal((8, 30)), lam=0.02)
    family, draw = GivenProblems(problem, problem), torch.Generator().manual_seed(0)
    slow = sp.solve(problem, "fista-restart", max_iter=TOO_SLOW, tol=1e-9, certify=False).converged.logical_not()
    assert slow.any()
    goal = solved_problems(family, 8, draw, torch.float64)
    assert len(goal.scale) == 8
    truth = sp.reference(goal.problem)
    assert torch.allclose(goal.problem.objective(goal.x), truth.objective, rtol=1e-10)
    assert (log_gap(goal, goal.x, inner(goal.problem, goal.x)) < -22).all()
    assert LONG > TOO_SLOW


def test_a_run_that_was_stopped_goes_on(tmp_path: Path) -> None:
    def stop(event) -> None:
        if event["event"] == "batch" and event["batch"] == 1:
            raise sp.training.StopTraining

    with pytest.raises(StoppedError, match="stopped after 1 of 3 batches; the same call continues"):
        fine_tune(spikes(), untrained(), tmp_path, changes=SHORT, listeners=[stop])
    after = fine_tune(spikes(), untrained(), tmp_path, changes=SHORT)
    whole = fine_tune(spikes(), untrained(), changes=SHORT)
    assert after.gain == whole.gain
    assert after.training.batches == 3
    other = spikes(width=1.0)
    refused(
        lambda: fine_tune(other, untrained(), tmp_path, changes=SHORT),
        "another recipe (family.digest",
        error=sp.ConfigError,
    )


def test_what_cannot_be_tuned_is_refused() -> None:
    refused(lambda: fine_tune(spikes(19)), "at least 20 problems", error=sp.ConfigError)
    refused(lambda: fine_tune(spikes(), "fista"), "fine_tune trains Sure", error=sp.ConfigError)
    typo = "unknown training key 'batchs'; did you mean 'batches'?"
    refused(lambda: fine_tune(spikes(), changes={"batchs": 3}), typo, error=sp.ConfigError)
    assert tuning(batches=7).batches == 7
