"""The project as a whole: what importing it costs, and how it is checked. What the README says is tested in docs/."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()

LIST_NEW_MODULES = """
import sys
import torch, numpy
before = {name.partition(".")[0] for name in sys.modules}
import sureprox
after = {name.partition(".")[0] for name in sys.modules}
print(*sorted(after - before - set(sys.stdlib_module_names)))
"""


def run(*command: str) -> subprocess.CompletedProcess[str]:
    """As a user would run it: without the shape checks of this test suite."""
    environment = {name: value for name, value in os.environ.items() if name != "SUREPROX_CHECK_SHAPES"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)


def python(code: str) -> subprocess.CompletedProcess[str]:
    return run(sys.executable, "-c", code)


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def test_import_needs_only_torch_and_numpy() -> None:
    result = python(LIST_NEW_MODULES)
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == ["sureprox"]


def test_scikit_learn_is_asked_for_where_it_is_needed() -> None:
    result = python("import sys; sys.modules['sklearn'] = None; import sureprox; import sureprox.sklearn")
    assert result.returncode == 1
    last = result.stderr.splitlines()[-1]
    assert last == "ImportError: sureprox.sklearn needs scikit-learn; install it: pip install 'sureprox[sklearn]'"


def test_continuous_integration_runs_the_readme_test_command() -> None:
    script = ROOT / ".ci" / "run"
    lines = script.read_text().splitlines()
    assert lines[-1] == "make test"
    assert "make test" in "\n".join(blocks("sh"))
    assert script.stat().st_mode & 0o111, ".ci/run must be executable"


def test_import_rules_hold() -> None:
    linter = Path(sys.executable).parent / "lint-imports"
    if not linter.exists():
        pytest.skip("import-linter is not installed in this environment")
    result = run(str(linter), "--no-cache")
    assert result.returncode == 0, result.stdout + result.stderr


def test_make_lint_checks_the_import_rules() -> None:
    plan = run("make", "--dry-run", "--always-make", "lint").stdout
    assert "lint-imports" in plan


def test_version_is_the_same_everywhere() -> None:
    declared = re.search(r'^version = "(.+)"', (ROOT / "pyproject.toml").read_text(), flags=re.MULTILINE)
    assert declared is not None
    result = run(sys.executable, "-m", "sureprox", "--version")
    assert (result.returncode, result.stdout) == (0, f"sureprox {declared[1]}\n")


def test_bad_input_is_one_line_and_exit_code_2() -> None:
    result = run(sys.executable, "-m", "sureprox", "demo", "--batch", "0")
    assert result.returncode == 2
    (line,) = result.stderr.splitlines()
    assert line.startswith("sureprox: batch is 0")


@pytest.mark.parametrize(("missing", "extra"), [("typer", "cli"), ("rich", "cli"), ("matplotlib", "plots")])
def test_a_missing_extra_is_one_line_and_exit_code_2(missing: str, extra: str) -> None:
    code = (
        f"import sys; sys.modules[{missing!r}] = None; sys.argv = ['sureprox', 'demo']; "
        "from sureprox.cli import main; main()"
    )
    result = python(code)
    assert result.returncode == 2
    (line,) = result.stderr.splitlines()
    assert line.startswith("sureprox: ")
    assert missing in line
    assert f"pip install 'sureprox[{extra}]'" in line


def test_make_harden_runs_the_full_counts() -> None:
    plan = run("make", "--dry-run", "--always-make", "harden").stdout
    assert "SUREPROX_HARDEN=full" in plan
    assert "tests/faults" in plan
    assert "tests/hostile" in plan
    assert "endurance.py --minutes 60" in plan
