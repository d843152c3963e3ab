"""A newcomer who reads only the README: everything it says to type is typed here, in its order."""

import re
import tomllib
from pathlib import Path

import numpy as np
import pytest
import torch

from doc_pages import README, ROOT, Reader, blocks

MAKEFILE = (ROOT / "Makefile").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
TARGETS = set(re.findall(r"^([a-z]+):", MAKEFILE, flags=re.MULTILINE))


def test_all_of_it_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Python and `sureprox` in one empty directory, where the reader's own problems.npz lies."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    np.savez("problems.npz", A=rng.standard_normal((30, 60)), b=rng.standard_normal((5, 30)), lam=2.0)
    reader = Reader(README, monkeypatch)
    ran = 0
    with torch.random.fork_rng(devices=[]):
        for block in blocks(README):
            if block.language == "python":
                reader.python(block)
                ran += 1
            elif block.language == "sh":
                for words in block.commands:
                    if words[0] == "sureprox":
                        reader.sureprox(words)
                        ran += 1
    assert ran >= 3


def test_other_commands_are_known() -> None:
    """`make` has the target, `pip` the extra, `python` the file; anything else needs a test first."""
    for block in blocks(README):
        for words in block.commands if block.language == "sh" else []:
            match words:
                case ["sureprox", *_]:
                    pass  # run by the test above
                case ["make", *arguments]:
                    assert {word for word in arguments if "=" not in word} <= TARGETS
                case ["source", ".venv/bin/activate"]:
                    assert "VENV ?= .venv\n" in MAKEFILE
                case ["pip", "install", requirement]:
                    extras = re.fullmatch(r"(?:sureprox|\.)(?:\[([\w,]+)\])?", requirement)
                    assert extras, f"{requirement} is not this package"
                    assert set(filter(None, (extras[1] or "").split(","))) <= set(PROJECT["optional-dependencies"])
                case ["python", script, *_]:
                    assert (ROOT / script).is_file()
                case _:
                    pytest.fail(f"the README says {' '.join(words)!r}, and no test runs it")


def test_it_begins_with_the_two_commands_and_shows_a_picture() -> None:
    shell = [words for block in blocks(README) if block.language == "sh" for words in block.commands]
    assert ["make", "demo"] in shell
    assert ["make", "test"] in shell
    assert re.search(r"!\[[^\]]+\]\(docs/images/\w+\.png\)", README.read_text())


def test_make_demo_is_the_demo() -> None:
    """`make demo` itself installs the package; what it then runs is tested in test_demo.py."""
    recipe = re.search(r"^demo:.*\n((?:\t.*\n)+)", MAKEFILE, flags=re.MULTILINE)
    assert recipe is not None
    assert recipe[1].split() == ["@$(BIN)/sureprox", "demo"]


def test_pictures_and_links_exist() -> None:
    targets = re.findall(r"\]\(([^)#]+)\)", README.read_text())
    assert targets
    assert [target for target in targets if "://" not in target and not (ROOT / target).exists()] == []
