"""Help, version and completion: without the libraries, complete, and with hints that name the command."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer

import sureprox
from sureprox.cli.app import app

SOURCES = Path(sureprox.__file__).parents[1]
REFUSING = "raise ImportError('this answer needs no library')\n"


@pytest.mark.parametrize(
    ("arguments", "environment", "expected"),
    [
        (["--version"], {}, f"sureprox {sureprox.__version__}"),
        (["--help"], {}, "Solve the problems of a file"),
        ([], {}, "Usage: sureprox"),
        (["solve", "--help"], {}, "--standardize"),
        (
            [],
            {"_SUREPROX_COMPLETE": "complete_bash", "COMP_WORDS": "sureprox solve --optimizer sur", "COMP_CWORD": "3"},
            "sure/lasso",
        ),
    ],
    ids=["version", "help", "nothing", "help of a command", "completion"],
)
def test_it_is_answered_without_torch_and_numpy(tmp_path, arguments, environment, expected):
    for name in ("torch", "numpy"):
        (tmp_path / f"{name}.py").write_text(REFUSING)
    (tmp_path / "sureprox").write_text("from sureprox.cli import main\nmain()\n")  # as it is installed
    paths = os.pathsep.join([str(tmp_path), str(SOURCES)])
    ended = subprocess.run(
        [sys.executable, "sureprox", *arguments],
        env=os.environ | {"PYTHONPATH": paths} | environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert expected in ended.stdout, ended.stderr
    assert ended.stderr == ""


def commands(group, path=("sureprox",)):
    """Every command with its words."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


COMMANDS = dict(commands(typer.main.get_command(app)))


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_help_fits_and_loses_nothing_to_markup(command, words):
    """Lines of a paragraph are kept as they are written, so they fit 80 columns; [text] would be taken for a style."""
    outcome = command(*words[1:], "--help")
    assert (outcome.code, outcome.err) == (0, "")
    assert max(map(len, (COMMANDS[words].help or "").splitlines())) <= 76
    for parameter in COMMANDS[words].params:
        assert "[" not in (getattr(parameter, "help", "") or "").replace("sureprox[", "")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["solve", "p.npz", "--certfy"], "; try: sureprox solve --help"),
        (["solv"], "No such command 'solv'; did you mean 'solve'? Try: sureprox --help"),
        (["bench", "batery"], "No such command 'batery'; did you mean 'battery'? Try: sureprox bench --help"),
        (["bench", "speed", "--steps", "0"], "try: sureprox bench speed --help"),
    ],
)
def test_hints_name_the_command(refused, words, line):
    assert line in refused(*words)


def test_an_option_of_nearly_that_name_is_shown(refused):
    """In the words of typer, or of click, where typer is older."""
    said = refused("solve", "p.npz", "--certfy").replace("'", "")
    assert re.match(r"No such option:? --certfy\.? \(.*: --certify, --no-certify, --report\??\); try: sureprox", said)


def test_a_group_alone_shows_its_help(command):
    outcome = command("bench")
    assert (outcome.code, outcome.err) == (0, "")
    assert "battery" in outcome.out
