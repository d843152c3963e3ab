"""Optimizers of the user's own by name: registered ones, those of installed packages, and what is never imported."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

import sureprox as sp
from helpers import refused
from sureprox.base.errors import InputError, WeightsError
from sureprox.evaluation.contestants import code_of
from sureprox.evaluation.figures import FIGURES
from sureprox.optimizers import GoMathL2O, LearnedOptimizer, State, known_kinds, load, register, save
from sureprox.optimizers import kinds as registry
from sureprox.training import TrainingConfig, preset, train
from training_cases import LASSO, small_config


class Scaled(LearnedOptimizer[State]):
    """x+ = prox(x - 2 sigmoid(w) grad f(x) / L)."""

    kind = "scaled"

    def __init__(self, first: float = 0.0) -> None:
        super().__init__()
        self.first = first
        self.w = nn.Parameter(torch.tensor(first))

    @property
    def arguments(self):
        return {"first": self.first}

    def init(self, problem, x0, *, generator=None, step_size=None):
        return State(problem.start(x0), 0, self.own_step_size(problem, step_size))

    def move(self, problem, state, seen):
        step = (2 * torch.sigmoid(self.w) * state.step_size).unsqueeze(1).to(state.x.dtype)
        return replace(state, x=problem.prox(state.x - step * seen.grad, step), k=state.k + 1)


class Whole(Scaled):
    """The same by `step` alone."""

    kind = "whole"

    def step(self, problem, state):
        seen = type("Seen", (), {"grad": problem.grad(state.x)})
        return self.move(problem, state, seen)


@pytest.fixture(autouse=True)
def _forgotten(monkeypatch):
    """What a test registers is forgotten after it."""
    monkeypatch.setattr(registry, "_registered", {})


def test_a_registered_optimizer_is_saved_loaded_and_solves(tmp_path):
    assert register(Scaled) is Scaled
    assert "scaled" in known_kinds()
    save(Scaled(0.5), tmp_path / "mine")
    found = load(tmp_path / "mine")
    assert isinstance(found, Scaled)
    assert found.w.item() == 0.5
    problem = LASSO.sample(3, torch.Generator().manual_seed(0), torch.float64)
    assert sp.solve(problem, str(tmp_path / "mine")).converged.all()
    assert sp.solve(problem, found).converged.all()


@pytest.mark.parametrize("kind", [Scaled, Whole])
def test_it_trains_whichever_half_it_defines(kind):
    register(kind)
    optimizer = kind(-3.0)
    result = train(optimizer, LASSO, small_config(learning_rate=0.1), device="cpu", backend="plain")
    assert result.completed
    assert optimizer.w.item() > -3.0  # a longer step is better


def test_both_halves_learn_the_same():
    learned = []
    for kind in (Scaled, Whole):
        optimizer = kind(-3.0)
        train(optimizer, LASSO, small_config(), device="cpu", backend="plain")
        learned.append(optimizer.w.item())
    assert learned[0] == pytest.approx(learned[1], rel=1e-5)


def test_presets_are_fitted_to_its_arguments():
    register(Scaled)
    recipe = preset("lasso-7", "scaled", first=1.0)
    assert recipe.arguments == {"first": 1.0}
    assert recipe.training == TrainingConfig(clip=0.0)
    assert preset("logistic", "scaled").arguments == {}


def test_the_same_class_again_takes_the_place_of_the_first():
    register(Scaled)
    again = type("Scaled", (Scaled,), {"kind": "scaled", "__module__": Scaled.__module__})
    register(again)
    assert registry.class_of("scaled") is again


@pytest.mark.parametrize(
    ("make", "parts"),
    [
        (lambda: 3, ("register got 3", "LearnedOptimizer")),
        (lambda: sp.optimizers.FISTA, ("register got", "LearnedOptimizer")),
        (lambda: type("Mine", (GoMathL2O,), {}), ("kind 'go-math-l2o' belongs to", "my-go-math-l2o")),
        (lambda: type("Mine", (Scaled,), {"kind": "scaled"}), ("kind 'scaled' belongs to", "test_own_kinds.Scaled")),
        (lambda: type("Mine", (Scaled,), {"kind": "My Kind"}), ("Mine.kind is 'My Kind'", "lower-case")),
        (lambda: type("Mine", (LearnedOptimizer,), {"kind": "mine"}), ("Mine does not define", "arguments", "init")),
    ],
)
def test_what_cannot_be_registered_is_one_line(make, parts):
    register(Scaled)
    refused(lambda: register(make()), *parts, error=InputError)


def test_an_unknown_kind_is_one_line(tmp_path):
    register(Scaled)
    save(Scaled(), tmp_path / "mine")
    registry._registered.clear()
    refused(lambda: load(tmp_path / "mine"), "optimizer is 'scaled'", "register", error=WeightsError)


def _package(folder: Path, name: str, kind: str, target: str, code: str) -> None:
    """An installed package that offers a kind."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{registry.GROUP}]\n{kind} = {target}\n")
    (folder / f"{target.partition(':')[0]}.py").write_text(code)


CODE = """
from test_own_kinds import Scaled
class Offered(Scaled):
    kind = "offered"
"""


@pytest.fixture
def site(tmp_path, monkeypatch):
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    before = set(sys.modules)
    yield folder
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_an_installed_package_offers_a_kind(site, tmp_path):
    _package(site, "offering", "offered", "offering_module:Offered", CODE)
    assert "offered" in known_kinds()
    assert "offering_module" not in sys.modules  # nothing is imported to list the names
    load("go-math-l2o/lasso")
    assert "offering_module" not in sys.modules
    recipe = preset("tiny", "offered")
    assert "offering_module" in sys.modules
    save(recipe.build(), tmp_path / "model")
    assert type(load(tmp_path / "model")).__name__ == "Offered"


def test_two_packages_with_one_kind_are_one_line(site):
    _package(site, "offering", "offered", "offering_module:Offered", CODE)
    _package(site, "rival", "offered", "rival_module:Offered", CODE)
    refused(lambda: registry.class_of("offered"), "offered by", "offering", "rival", "uninstall", error=WeightsError)
    assert not {"offering_module", "rival_module"} & set(sys.modules)


@pytest.mark.parametrize(
    ("kind", "target", "code", "parts"),
    [
        ("other", "named_module:Offered", CODE, ("'other'", "kind 'offered'", "must be the same")),
        ("offered", "broken_module:Offered", "1 / 0", ("'offered' of offering", "ZeroDivisionError")),
        ("offered", "empty_module:Offered", "", ("'offered' of offering", "AttributeError")),
        ("offered", "number_module:Offered", "Offered = 3", ("'offered' of offering", "register got 3")),
    ],
)
def test_a_package_that_cannot_be_used_is_one_line(site, kind, target, code, parts):
    _package(site, "offering", kind, target, code)
    refused(lambda: registry.class_of(kind), *parts, error=WeightsError)


def test_nobody_replaces_a_kind_of_the_package(site):
    _package(site, "offering", "go-math-l2o", "evil_module:Offered", "1 / 0")
    assert isinstance(load("go-math-l2o/lasso"), GoMathL2O)
    assert "evil_module" not in sys.modules


@pytest.mark.parametrize(
    "named", ["evil_module:Offered", "evil_module.Offered", "evil_module", "../evil_module", 3, None]
)
def test_a_card_imports_no_code(site, tmp_path, named):
    (site / "evil_module.py").write_text("raise SystemExit('imported')")
    register(Scaled)
    save(Scaled(), tmp_path / "model")
    path = tmp_path / "model.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"optimizer": named}))
    refused(lambda: load(tmp_path / "model"), f"optimizer is {named!r}", error=WeightsError)
    assert "evil_module" not in sys.modules


def test_joining_a_figure_adds_a_curve_to_every_scenario():
    plain = FIGURES["fig4"]
    joined = plain.joined(["scaled/tiny", "l2o-pa/lasso"])
    added = {(line.optimizer, line.scenario) for line in joined.lines} - {
        (o.optimizer, o.scenario) for o in plain.lines
    }
    assert added == {("scaled/tiny", line.scenario) for line in plain.lines}
    assert plain.joined(["l2o-pa/lasso"]) is plain


def test_curves_are_kept_apart_by_code():
    assert code_of(GoMathL2O()) == ""
    assert code_of(Scaled()) == code_of(Scaled(1.0)) != code_of(Whole())
