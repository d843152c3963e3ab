"""The demo's numbers against a computation from the histories alone, and its figure when optimizers diverge."""

import math
from dataclasses import replace
from io import StringIO
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest
import torch
from rich.console import Console

import sureprox as sp
from sureprox import demo
from sureprox.base.errors import InputError
from sureprox.optimizers import FISTA, ISTA, GoMathL2O, State, weights
from sureprox.problems import Problem
from sureprox.sources import LassoFamily

FAMILY = LassoFamily(m=20, n=40, nonzeros=4)
BATCH, MAX_ITER, SEED = 5, 120, 3


class Exploding(ISTA):
    """ISTA whose point of the last instance is multiplied by 1e30 at every step after the third."""

    def step(self, problem: Problem, state: State) -> State:
        after = super().step(problem, state)
        if state.k < 3:
            return after
        factor = torch.ones_like(after.x)
        factor[-1] = 1e30
        return replace(after, x=after.x * factor)


@pytest.fixture(scope="module")
def curves() -> list[demo.Curve]:
    optimizers = {"ISTA": ISTA(), "FISTA with restart": FISTA(restart=True), "exploding": Exploding()}
    return demo.race(optimizers, FAMILY, batch=BATCH, max_iter=MAX_ITER, seed=SEED)


def first_at_most(values: list[float], level: float) -> str:
    return next((str(k) for k, value in enumerate(values) if value <= level), f"not in {MAX_ITER}")


@pytest.mark.parametrize("scenario", list(demo.SCENARIOS))
@pytest.mark.parametrize("name", ["ISTA", "FISTA with restart"])
def test_table_agrees_with_the_histories(curves: list[demo.Curve], scenario: str, name: str) -> None:
    generator = torch.Generator().manual_seed(SEED)
    problem = FAMILY.sample(BATCH, generator, torch.float64)
    x0 = FAMILY.start(BATCH, generator, torch.float64) + demo.SCENARIOS[scenario]
    optimizer = ISTA() if name == "ISTA" else FISTA(restart=True)
    best = sp.reference(problem).objective.numpy()
    start = optimizer.init(problem, x0)
    states = [start, *sp.iterate(problem, optimizer, start, MAX_ITER)]
    values = [problem.objective(state.x).numpy() for state in states]
    mean = np.mean((np.array(values) - best) / best, axis=1).tolist()

    (curve,) = (c for c in curves if (c.scenario, c.optimizer) == (scenario, name))
    assert demo.row(curve)[:4] == (name, *(first_at_most(mean, level) for level in demo.LEVELS))
    assert curve.gap.tolist() == pytest.approx(mean[: len(curve.gap)], rel=1e-6, abs=1e-11)


def test_solved_and_diverged_are_counted(curves: list[demo.Curve]) -> None:
    solved = {(c.scenario, c.optimizer): (c.solved, c.diverged) for c in curves}
    for scenario in demo.SCENARIOS:
        assert solved[scenario, "exploding"][1] == 1
        assert solved[scenario, "ISTA"] == (0, 0)  # far from 1e-12 after so few iterations


def test_divergence_is_not_hidden(curves: list[demo.Curve]) -> None:
    curve = next(c for c in curves if c.optimizer == "exploding")
    assert math.isinf(curve.gap[-1])
    assert not torch.isnan(curve.gap).any()
    assert demo.row(curve)[-1] == f"1/{BATCH}"


def test_figure_draws_divergence(curves: list[demo.Curve], tmp_path: Path) -> None:
    path = tmp_path / "new" / "demo.png"
    demo.figure(curves, path, "test")
    pixels = matplotlib.image.imread(path)
    assert pixels.shape[0] > 300
    assert pixels.std() > 0


def test_table_has_every_optimizer_and_scenario(curves: list[demo.Curve]) -> None:
    output = StringIO()
    Console(width=80, file=output).print(demo.table(curves))
    text = output.getvalue()
    for curve in curves:
        assert curve.scenario in text
        assert curve.optimizer in text


@pytest.mark.parametrize(("batch", "max_iter"), [(0, 10), (2, 0)])
def test_impossible_sizes_are_refused(batch: int, max_iter: int) -> None:
    with pytest.raises(InputError, match="at least 1"):
        demo.race({"ISTA": ISTA()}, FAMILY, batch=batch, max_iter=max_iter)


def test_learned_optimizers_take_part_where_their_weights_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(weights, "PRETRAINED", tmp_path / "pretrained")
    classical = ["ISTA", "FISTA", "FISTA with restart"]
    assert list(demo.contestants()) == classical
    assert demo.missing() == ["GO-Math-L2O", "L2O-PA", "Sure"]
    sp.save(GoMathL2O(hidden=4), tmp_path / "pretrained" / "go-math-l2o" / "lasso")
    assert list(demo.contestants()) == [*classical, "GO-Math-L2O"]
    monkeypatch.setattr(demo, "LassoFamily", lambda: FAMILY)
    demo.demo(tmp_path / "demo.png", max_iter=2, batch=2)
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "L2O-PA is not among the pretrained optimizers yet"
    assert sum("GO-Math-L2O is not" in line for line in lines) == 0
    assert sum(line.strip().startswith("GO-Math-L2O ") for line in lines) == len(demo.SCENARIOS)
    assert (tmp_path / "demo.png").exists()
