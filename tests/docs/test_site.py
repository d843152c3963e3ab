"""The documentation as a site: complete, and built so that a warning is an error (`make docs`, part of `make test`)."""

import re
import subprocess
import sys

import pytest

import sureprox
import sureprox.sklearn
import sureprox.training
from doc_pages import PAGES, ROOT

sys.path.insert(0, str(ROOT / "docs" / "_ext"))

from plain_docstrings import escaped, rewrite


def test_make_test_builds_it_with_warnings_as_errors() -> None:
    plan = subprocess.run(["make", "--dry-run", "test"], cwd=ROOT, capture_output=True, text=True).stdout
    (build,) = [line for line in plan.splitlines() if "-m sphinx" in line]
    assert {"--fail-on-warning", "--nitpicky", "docs"} <= set(build.split())


def test_every_public_name_is_in_the_reference() -> None:
    page = (ROOT / "docs" / "api.md").read_text()
    documented = set(re.findall(r"auto(?:class|function|exception):: (\w+)", page))
    modules = [sureprox, sureprox.problems, sureprox.optimizers, sureprox.training, sureprox.sklearn]
    public = {name for module in modules for name in module.__all__} - {"__version__", "optimizers", "problems"}
    assert public - documented == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_pictures_exist(page) -> None:
    for picture in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", page.read_text()):
        assert (page.parent / picture).is_file()


def test_formulas_of_docstrings_are_not_markup() -> None:
    assert escaped("lam |x|_1, `L1` and x*") == r"lam \|x\|\_1, ``L1`` and x\*"


def test_docstrings_keep_their_form() -> None:
    lines = ["min |x|_1.", "", "tol : a gap,", "    relative.", "device : where", "", "    x = A'y"]
    rewrite(None, "class", "", None, None, lines)
    assert lines == [
        r"min \|x\|\_1.",
        "",
        "* ``tol``: a gap,",
        "  relative.",
        "* ``device``: where",
        "",
        "::",
        "",
        "        x = A'y",
        "",
    ]
