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

from records import leaves, pivoted, reached, shown


def test_make_test_builds_it_with_warnings_as_errors() -> None:
    command = ["make", "--dry-run", "test"]
    plan = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60).stdout
    (build,) = [line for line in plan.splitlines() if "-m sphinx" in line]
    assert {"--fail-on-warning", "--nitpicky", "docs"} <= set(build.split())


def test_every_public_name_is_in_the_reference() -> None:
    page = (ROOT / "docs" / "api.md").read_text()
    documented = set(re.findall(r"auto(?:class|function|exception):: (\w+)", page))
    parts = [sureprox.losses, sureprox.penalties, sureprox.operators]
    modules = [sureprox, sureprox.problems, *parts, sureprox.optimizers, sureprox.training, sureprox.sklearn]
    public = {name for module in modules for name in module.__all__} - {"__version__", "optimizers", "problems"}
    assert public - documented == {"losses", "operators", "penalties"}  # the modules


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_pictures_exist(page) -> None:
    for picture in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", page.read_text()):
        assert (page.parent / picture).is_file()


def test_formulas_of_docstrings_are_not_markup() -> None:
    assert escaped("lam |x|_1, `L1` and x*") == r"lam \|x\|\_1, ``L1`` and x\*"


def test_docstrings_keep_their_form() -> None:
    lines = ["min |x|_1.", "", "tol : a gap,", "    relative.", "device : where", "", "    x = A'y"]
    lines += ["", "- True: |x|,", "  twice", "- False"]
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
        r"- True\: \|x\|,",
        "  twice",
        "- False",
        "",
    ]


def test_records_become_tables() -> None:
    record = {"command": "python x.py", "a": {"b": 0.12345, "c": [1, 2]}, "n": 12345}
    assert leaves(record) == [("a.b", 0.12345), ("a.c", [1, 2]), ("n", 12345)]
    assert [shown(reached(record, path)) for path in ("a.b", "n")] == ["0.123", "12,345"]
    with pytest.raises(KeyError):
        reached(record, "a.missing")
    runs = [{"name": "f", "batch": 8, "best": 2e-6}, {"name": "g", "batch": 16, "best": 3e-6}]
    options = {"rows": "name", "columns": "batch", "value": "best", "times": 1e6}
    assert pivoted(runs, options) == ([8, 16], [["f", "2", ""], ["g", "", "3"]])
