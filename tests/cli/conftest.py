"""Runs a command in this process: quick, and with the same `main` that the installed command calls."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from sureprox.cli import main
from sureprox.optimizers import GoMathL2O, save, weights


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


Command = Callable[..., Outcome]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    """command("train", ...): exit code and output of `sureprox train ...`, run in an empty directory."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["sureprox", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        seen = capsys.readouterr()
        return Outcome(ended.value.code, seen.out, seen.err)

    return run


@pytest.fixture
def refused(command: Command, tmp_path: Path) -> Callable[..., str]:
    """refused(...): the one line on stderr of a command that must fail with exit code 2 and leave nothing behind."""

    def run(*arguments: str) -> str:
        before = sorted(tmp_path.rglob("*"))
        outcome = command(*arguments)
        assert outcome.code == 2
        assert outcome.out == ""
        assert sorted(tmp_path.rglob("*")) == before
        (line,) = outcome.err.splitlines()
        return line.removeprefix("sureprox: ")

    return run


@pytest.fixture
def shelf(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """shelf("kind/name", ...): the package holds these pretrained optimizers, all untrained, and no others."""

    def stock(*names: str) -> Path:
        directory = tmp_path_factory.mktemp("pretrained")
        for name in names:
            save(
                GoMathL2O(hidden=4),
                directory / name,
                family={"name": "lasso", "m": 20, "n": 40, "nonzeros": 5},
                training={"batch": 16, "batches": 20, "epochs": 2},
                date="2026-01-02",
                metrics={"validation_loss": 1.25},
                notes="made by a test",
            )
        monkeypatch.setattr(weights, "PRETRAINED", directory)
        return directory

    return stock
