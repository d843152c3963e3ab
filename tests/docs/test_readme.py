"""A newcomer who reads only the README: everything it says to type is typed here, in its order."""

import re
import shlex
import tomllib
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import torch

from doc_pages import PAGES, README, ROOT, Reader, blocks

MAKEFILE = (ROOT / "Makefile").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
TARGETS = set(re.findall(r"^([a-z]+):", MAKEFILE, flags=re.MULTILINE))


def test_all_of_it_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Python and `sureprox` in one directory, where nothing but the reader's own houses.csv lies."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    table = np.column_stack([rng.standard_normal((40, 6)), rng.standard_normal(40) + 20])
    np.savetxt("houses.csv", table, delimiter=",", header="sqm,rooms,age,floor,garden,distance,price", comments="")
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
                case ["pip", "install", *arguments]:
                    require_installable(arguments)
                case ["python", script, *_]:
                    assert (ROOT / script).is_file()
                case _:
                    pytest.fail(f"the README says {' '.join(words)!r}, and no test runs it")


def require_installable(arguments: list[str]) -> None:
    """This package from a clone, with extras that it has; perhaps with PyTorch's own index, as CI uses it."""
    requirement, *rest = arguments
    extras = re.fullmatch(r"\.(?:\[([\w,]+)\])?", requirement)
    assert extras, f"{requirement} is not this package in a clone"
    assert set(filter(None, (extras[1] or "").split(","))) <= set(PROJECT["optional-dependencies"])
    workflow = (ROOT / ".github" / "workflows" / "tests.yml").read_text()
    assert rest in ([], ["--extra-index-url", *re.findall(r"PIP_EXTRA_INDEX_URL: (\S+)", workflow)])


@pytest.mark.parametrize("page", [README, *PAGES], ids=lambda page: page.stem)
def test_what_is_installed_can_be_installed(page: Path) -> None:
    """The package is on no index yet: `pip install sureprox` would find nothing."""
    for found in re.findall(r"pip install ([^`\n]+)", page.read_text()):
        if "sureprox" in found or "." in found.split()[0]:
            require_installable(shlex.split(found))


def test_other_extras_are_listed() -> None:
    (line,) = re.findall(r"Other extras: ([^.]+)\.", README.read_text())
    assert set(re.findall(r"`(\w+)`", line)) <= set(PROJECT["optional-dependencies"])


def test_the_first_screen_says_what_it_is_and_shows_seconds_code_and_the_installation() -> None:
    screen = "\n".join(README.read_text().splitlines()[:22])
    assert "![Seconds of sureprox, scikit-learn and celer" in screen
    assert "sp.solve(" in screen
    assert "pip install '.[cli,plots]'" in screen


def test_the_chart_says_what_the_text_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Who is the fastest, by the records that the chart is drawn from."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    figure = import_module("readme_figure")
    gpu, cpu = figure.machine("cuda"), figure.machine("cpu")
    text = " ".join(README.read_text().split())
    assert "sureprox is the fastest in all three tasks, on the GPU and on the CPU" in text
    for where in (gpu, cpu):
        assert [min(task.seconds, key=task.seconds.get) for task in where.tasks] == ["sureprox"] * 3
    figure.draw([gpu, cpu], tmp_path / "seconds.png")
    assert (tmp_path / "seconds.png").stat().st_size > 10_000


def test_both_commands_of_a_checkout_are_there() -> None:
    shell = [words for block in blocks(README) if block.language == "sh" for words in block.commands]
    assert ["make", "demo"] in shell
    assert ["make", "test"] in shell


def test_make_demo_is_the_demo() -> None:
    """`make demo` itself installs the package; what it then runs is tested in test_demo.py."""
    recipe = re.search(r"^demo:.*\n((?:\t.*\n)+)", MAKEFILE, flags=re.MULTILINE)
    assert recipe is not None
    assert recipe[1].split() == ["@$(BIN)/sureprox", "demo"]


def test_pictures_and_links_exist() -> None:
    targets = re.findall(r"\]\(([^)#]+)[^)]*\)", README.read_text())
    assert targets
    assert [target for target in targets if "://" not in target and not (ROOT / target).exists()] == []
