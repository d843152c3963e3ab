"""The audit of trained optimizers: bounds that hold, words that say what they mean, one line for what is missing."""

import json
from pathlib import Path

import pytest
import torch

import sureprox as sp
from helpers import refused
from sureprox.audit import audit, models, write
from sureprox.audit import report as report_module
from sureprox.audit.drawn_networks import Kind
from sureprox.audit.models import Scenario, audit_model, growth, setting
from sureprox.audit.result import TOLERANCE
from sureprox.audit.text import words
from sureprox.base.errors import WeightsError
from sureprox.optimizers import L2OPA, GoMathL2O, weights
from sureprox.sources import LassoFamily

FAMILY = LassoFamily(m=10, n=20, nonzeros=4)
SCENARIOS = (Scenario(), Scenario(s=10.0), Scenario(t=-5.0))


@pytest.fixture(scope="module")
def where() -> models.Setting:
    return setting(FAMILY, 3, seed=0)


def made(kind: type):
    torch.manual_seed(2)
    return kind(hidden=4, initial_state="random")


@pytest.mark.parametrize("kind", [GoMathL2O, L2OPA])
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.name)
def test_every_assumption_free_inequality_holds(where: models.Setting, kind: type, scenario: Scenario) -> None:
    found = audit_model("x", made(kind), where, scenario, 15)
    assert len(found.checks) == 13
    for check in found.checks.values():
        assert check.worst("free") >= -TOLERANCE
    for at in found.constants:
        assert at.secant[0] <= at.sampled[0] * 1.05 <= at.product[0] * 1.05
        assert at.residual < 1e-10
        assert max(at.bounds["secant"]) <= max(at.bounds["product"])


def test_sampled_problems_are_the_papers(where: models.Setting) -> None:
    assert where.problem.n == 20
    assert float(where.problem.duality_gap(where.solution).max()) < 1e-9


def test_a_diverging_run_is_cut_and_said(where: models.Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    optimizer = made(GoMathL2O)
    with torch.no_grad():
        optimizer.network.heads["Q"].bias.fill_(50.0)  # Q = 2: every step is repeated and doubled
        optimizer.network.heads["B"].bias.fill_(-50.0)
    monkeypatch.setattr(models, "MARKS", ())
    found = audit_model("x", optimizer, where, Scenario(s=10.0), 400)
    assert found.diverged
    assert found.steps < 400
    assert all(check.worst("free") >= -TOLERANCE for check in found.checks.values())
    assert "leaves every bounded set" in " ".join(words(found))


def test_words_say_vacuous(where: models.Setting) -> None:
    text = " ".join(words(audit_model("x", made(GoMathL2O), where, Scenario(s=10.0), 15)))
    for part in ("vacuous", "assumption does not hold", "lower estimate", "true everywhere", "all hold"):
        assert part in text


def test_growth_has_every_term(where: models.Setting) -> None:
    found = growth("x", made(L2OPA), where, (0.0, 10.0))
    assert all(len(values) == 2 for values in found.terms.values())
    assert found.terms["|s'|, distance of the features"][0] == 0
    assert found.terms["|s|, distance of the points"][1] > 0


@pytest.mark.parametrize(("text", "name"), [("s=10", "s = 10"), ("t=-5", "t = -5"), ("ind", "in distribution")])
def test_scenarios_are_read(text: str, name: str) -> None:
    assert Scenario.parse(text).name == name


@pytest.mark.parametrize("text", ["", "s", "s=x", "q=1", "s=inf", "s=1;t=2"])
def test_bad_scenarios_are_one_line(text: str) -> None:
    refused(lambda: Scenario.parse(text), "scenario is", "s=NUMBER")


def test_sp_audit_is_the_module() -> None:
    assert sp.audit.audit is audit
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = sp.nothing


def test_report_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "PRETRAINED", tmp_path / "pretrained")
    family = {"name": "lasso", "m": 10, "n": 20, "nonzeros": 4, "lam": 0.1}
    sp.save(made(GoMathL2O), tmp_path / "pretrained" / "go-math-l2o" / "lasso", family=family)
    monkeypatch.setattr(report_module, "quick_grid", lambda: iter([Kind()]))
    lines: list[str] = []
    report = audit(scenarios=("ind", "s=10"), instances=2, steps=4, trials=1, progress=lines.append)
    assert report.notes == ["l2o-pa/lasso is not among the pretrained optimizers; it was left out"]
    paths = write(report, tmp_path / "out")
    names = ["audit.md", "errata.md", "audit.html", "audit.json", "gains.png", "growth.png"]
    assert [path.name for path in paths] == names
    assert all(path.stat().st_size > 0 for path in paths)
    text = paths[0].read_text()
    for part in ("Corollary 10", "go-math-l2o/lasso, s = 10", "it was left out", "![gains.png](gains.png)"):
        assert part in text
    data = json.loads(paths[3].read_text())
    assert data["device"].startswith("CPU ")
    assert {"date", "versions"} <= set(data)
    assert len(data["statements"]) == 30
    assert [m["scenario"] for m in data["models"]] == ["in distribution", "s = 10"]
    assert len(data["models"][0]["gain"]) == 2
    assert len(data["counterexamples"]) == 14
    assert lines[0] == "statements on random runs"


def test_unknown_models_and_sizes_are_one_line() -> None:
    refused(lambda: audit(["no/such"]), "no/such", error=WeightsError)
    refused(lambda: audit(instances=0), "instances is 0")
