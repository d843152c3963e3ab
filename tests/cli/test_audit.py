"""`sureprox audit`: the tables, the files, and one line for what cannot be audited."""

from pathlib import Path

import pytest
import torch

import sureprox as sp
from sureprox.audit import report
from sureprox.audit.drawn_networks import Kind
from sureprox.optimizers import GoMathL2O


@pytest.fixture
def model(tmp_path: Path) -> str:
    torch.manual_seed(0)
    family = {"name": "lasso", "m": 10, "n": 20, "nonzeros": 4, "lam": 0.1}
    sp.save(GoMathL2O(hidden=4), tmp_path / "model", family=family)
    return str(tmp_path / "model")


def test_audit_prints_and_writes(command, model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "quick_grid", lambda: iter([Kind()]))
    outcome = command(
        "audit", "--model", model, "--scenario", "s=10", "--instances", "2", "--iterations", "3", "--trials", "1",
        "--out", "here",
    )  # fmt: skip
    assert (outcome.code, outcome.err) == (0, "")
    for part in ("statement", "Theorem 2", "false", "Corollary 10", "s = 10", "assumption-free", "audit.md"):
        assert part in outcome.out
    assert sorted(path.name for path in (tmp_path / "here").iterdir()) == [
        "audit.html",
        "audit.json",
        "audit.md",
        "errata.md",
        "gains.png",
        "growth.png",
    ]


def test_bad_scenario_is_one_line(refused, model: str) -> None:
    assert "scenario is 'x=1'" in refused("audit", "--model", model, "--scenario", "x=1")


def test_unknown_model_is_one_line(refused) -> None:
    assert "'no/such'" in refused("audit", "--model", "no/such", "--scenario", "ind")
