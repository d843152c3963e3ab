"""`make test-gpu` on a machine that has PyTorch and pytest, but neither a GPU nor the development tools."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
MISSING = ("beartype", "hypothesis", "jaxtyping", "pytest_timeout", "xdist", "optuna", "distributed", "zarr", "scipy")
MISSING += ("sklearn", "matplotlib", "typer", "rich", "psutil", "celer", "cryptography", "tensorboard")
BARE = """
import sys
sys.modules.update(dict.fromkeys({missing}))
import pytest
sys.exit(pytest.main({arguments}))
"""


def test_tests_of_a_gpu_need_no_development_tools_and_are_skipped_without_a_gpu():
    recipe = (ROOT / "Makefile").read_text().partition("\ntest-gpu:")[2].partition("\n\n")[0]
    files = sorted(str(path) for path in ROOT.glob("tests/**/test_*.py") if "mark.cuda" in path.read_text())
    assert "-c tests/gpu.ini --rootdir ." in recipe
    assert "SUREPROX_CHECK_SHAPES= " in recipe
    arguments = ["-q", "-c", "tests/gpu.ini", "--rootdir", ".", "-p", "no:cacheprovider", *files]
    plain = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": "", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", BARE.format(missing=MISSING, arguments=arguments)],
        cwd=ROOT,
        env={**os.environ, **plain, "SUREPROX_CHECK_SHAPES": "", "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no CUDA device here" in done.stdout
    found = re.search(r"(\d+) skipped, \d+ deselected in", done.stdout.splitlines()[-1])
    assert found is not None, done.stdout
    assert int(found[1]) > 100
