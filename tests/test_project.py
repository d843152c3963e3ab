"""The project as a whole: what importing it costs, and how it is checked. What the README says is tested in docs/."""

import ast
import os
import re
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from sureprox import losses, penalties

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
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=240)


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
    assert last == "ImportError: sureprox.sklearn needs scikit-learn; install it: pip install scikit-learn"


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
    assert f"\nversion: {declared[1]}\n" in (ROOT / "CITATION.cff").read_text()
    result = run(sys.executable, "-m", "sureprox", "--version")
    assert (result.returncode, result.stdout) == (0, f"sureprox {declared[1]}\n")


def test_bad_input_is_one_line_and_exit_code_2() -> None:
    result = run(sys.executable, "-m", "sureprox", "demo", "--batch", "0")
    assert result.returncode == 2
    (line,) = result.stderr.splitlines()
    assert line.startswith("sureprox: batch is 0")


@pytest.mark.parametrize(
    ("missing", "install"), [("typer", "typer rich"), ("rich", "typer rich"), ("matplotlib", "matplotlib")]
)
def test_a_missing_extra_is_one_line_and_exit_code_2(missing: str, install: str) -> None:
    code = (
        f"import sys; sys.modules[{missing!r}] = None; sys.argv = ['sureprox', 'demo']; "
        "from sureprox.cli import main; main()"
    )
    result = python(code)
    assert result.returncode == 2
    (line,) = result.stderr.splitlines()
    assert line.startswith("sureprox: ")
    assert missing in line
    assert line.endswith(f"pip install {install}")


@pytest.mark.parametrize("failing", ["ruff", "mypy", "lint-imports", "sphinx", "pytest", "nothing"])
def test_make_test_fails_where_a_check_does(tmp_path: Path, failing: str) -> None:
    """Each tool replaced by one that does nothing, or fails. Tests begin when the other checks have passed."""
    (tmp_path / "bin").mkdir()
    for tool in ("ruff", "mypy", "lint-imports", "python"):
        (tmp_path / "bin" / tool).write_text(
            f'#!/bin/sh\ncase "${{0##*/}} $*" in *{failing}*) echo broken; exit 1;; esac\n'
        )
        (tmp_path / "bin" / tool).chmod(0o755)
    (tmp_path / ".installed-dev").touch()
    ended = run("make", "test", f"VENV={tmp_path}")
    assert (ended.returncode == 0) == (failing == "nothing"), ended.stdout + ended.stderr
    assert ended.stdout.count("broken") == (failing != "nothing")
    titles = [line for line in ended.stdout.splitlines() if line in ("ruff", "mypy", "documentation", "pytest")]
    assert "documentation" in titles
    assert ("pytest" in titles) == (failing in ("pytest", "nothing"))


def test_make_harden_runs_the_full_counts() -> None:
    plan = run("make", "--dry-run", "--always-make", "harden").stdout
    assert "SUREPROX_HARDEN=full" in plan
    assert "tests/faults" in plan
    assert "tests/hostile" in plan
    assert "endurance.py --minutes 60" in plan


def test_the_order_of_tests_is_that_of_its_seed(request, monkeypatch) -> None:
    plan = run("make", "--dry-run", "--always-make", "harden-order", "ROUNDS=3", "SEED=7").stdout
    assert "first=7; " in plan
    assert "SUREPROX_TEST_ORDER=$seed" in plan
    hook = request.config.pluginmanager.get_plugin(str(ROOT / "tests" / "conftest.py")).pytest_collection_modifyitems
    orders = []
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)  # then it does nothing else
    for seed in ("", "7", "7", "8"):
        monkeypatch.setenv("SUREPROX_TEST_ORDER", seed)
        orders.append([*range(50)])
        hook(orders[-1])
    plain, first, same, other = orders
    assert plain == [*range(50)]
    assert first == same
    assert sorted(first) == plain
    assert first not in (plain, other)


HANGING = """
import signal, threading, time

def test_interrupted():
    thread = threading.Thread(target=time.sleep, args=[60], daemon=True)
    thread.start()
    thread.join()

def test_deaf():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
    time.sleep(60)

def test_after():
    pass
"""


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="this platform has no signals to block")
@pytest.mark.parametrize("processes", [["-p", "no:xdist"], ["-n", "1"]])
def test_a_test_that_hangs_is_ended(tmp_path: Path, processes: list[str]) -> None:
    """By the limits of pyproject.toml, here shortened; with xdist those after it still run."""
    configured = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    limits = ("timeout", "faulthandler_timeout", "faulthandler_exit_on_timeout")
    assert 0 < configured["timeout"] < configured["faulthandler_timeout"]
    options = {name: configured[name] for name in limits} | {"timeout": 1, "faulthandler_timeout": 3}
    (tmp_path / "pytest.ini").write_text("\n".join(["[pytest]", *(f"{k} = {v}" for k, v in options.items())]))
    (tmp_path / "test_hanging.py").write_text(HANGING)
    command = [sys.executable, "-m", "pytest", "-q", *processes, "-p", "no:cacheprovider"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=240)
    assert result.returncode == 1
    told = result.stdout + result.stderr
    assert "Timeout" in told
    if "-n" in processes:
        assert "test_interrupted - Failed: Timeout" in told
        assert "crashed while running 'test_hanging.py::test_deaf'" in told
        assert "2 failed, 1 passed" in told


WAITS = {"acquire", "communicate", "join", "result", "wait"}
RUNS = {"call", "check_call", "check_output", "run"}


def test_no_wait_is_without_a_limit():
    """For a process, a thread or a lock, in the package and its tests."""
    found = []
    for path in sorted([*(ROOT / "src").rglob("*.py"), *(ROOT / "tests").rglob("*.py")]):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        awaited = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Await)}
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or id(node) in awaited:
                continue
            process = getattr(node.func.value, "id", "") == "subprocess" and node.func.attr in RUNS
            limited = any(given.arg == "timeout" for given in node.keywords)
            if (process and not limited) or (node.func.attr in WAITS and not (node.args or node.keywords)):
                found.append(f"{path.relative_to(ROOT)}:{node.lineno} {ast.unparse(node.func)}")
    assert found == []


INTERFACES = {"Penalty", "HasPenaltyDual", "GroupBall", "Link"}
CONCRETE = {*losses.__all__, *penalties.__all__, "Quadratic"} - INTERFACES


def annotations(tree: ast.AST) -> set[int]:
    """The nodes that say what a value is, and ask nothing."""
    found = [getattr(node, name, None) for node in ast.walk(tree) for name in ("annotation", "returns")]
    return {id(node) for root in found if root is not None for node in ast.walk(root)}


def estimators(tree: ast.AST) -> set[str]:
    """Names that are estimators in this file, such as ElasticNet, and no penalties."""
    nodes = [*ast.walk(tree)]
    here = {node.name for node in nodes if isinstance(node, ast.ClassDef)}
    given = [node for node in nodes if isinstance(node, ast.ImportFrom) and "sureprox.sklearn" in (node.module or "")]
    return here | {alias.name for node in given for alias in node.names}


def unasked(tree: ast.AST) -> set[int]:
    """The nodes outside of `isinstance` and comparisons: tables of classes, such as those from which files are read."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    asking = [node for node in calls if node.func.id in ("isinstance", "issubclass")]
    asking += [node for node in ast.walk(tree) if isinstance(node, ast.Compare)]
    return {id(node) for node in ast.walk(tree)} - {id(node) for root in asking for node in ast.walk(root)}


def test_only_forms_ask_what_a_problem_is():
    """Elsewhere a concrete loss or penalty may be made, by calling its class, and listed in a table of sources/."""
    found = []
    package = ROOT / "src" / "sureprox"
    for path in sorted(package.rglob("*.py")):
        room = path.relative_to(package).parts[0]
        if room == "problems":
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        made = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)} | annotations(tree)
        made |= unasked(tree) if room == "sources" else set()
        others = estimators(tree)
        for node in ast.walk(tree):
            name = getattr(node, "id", None)
            if isinstance(node, ast.Attribute) and getattr(node.value, "id", None) in ("losses", "penalties"):
                name = node.attr
            if name in CONCRETE - others and id(node) not in made:
                found.append(f"{path.relative_to(package)}:{node.lineno} {name}")
            if isinstance(node, ast.ClassDef) and any(getattr(base, "id", "") == "Problem" for base in node.bases):
                found.append(f"{path.relative_to(package)}:{node.lineno} subclass of Problem")
    assert found == ["evaluation/paper_prox.py:11 subclass of Problem"]  # the paper's own, wrong formula
