"""Compiling, keeping and finding the kernels, and doing without."""

import os
import re
import subprocess
import sys
import warnings

import pytest
import torch

import sureprox as sp
from sureprox.kernels import native_status
from sureprox.kernels.runtime import library
from sureprox.solve import plan as plans
from sureprox.solve.solve import prepare, solve
from sureprox.sources import LassoFamily

STEP = """
import torch, sureprox as sp
from sureprox.kernels import native_status
from sureprox.sources import LassoFamily
problem = LassoFamily(m=3, n=1024).sample(8, torch.Generator().manual_seed(0))
assert sp.solve(problem, "go-math-l2o/lasso", max_iter=2, engine="kernels").engine == "kernels"
print(native_status())
"""


def process(cache, **env: str) -> subprocess.Popen:
    full = {**os.environ, "SUREPROX_NATIVE": "1", "SUREPROX_CACHE": str(cache), **env}
    full.pop("SUREPROX_CHECK_SHAPES", None)
    return subprocess.Popen([sys.executable, "-c", STEP], env=full, stdout=subprocess.PIPE, text=True)


def test_two_processes_at_once_and_then_a_third(kept, tmp_path):
    both = [process(tmp_path) for _ in range(2)]
    said = [one.communicate(timeout=280)[0] for one in both]
    assert all(one.returncode == 0 for one in both)
    assert all(text.startswith(("compiled by", "loaded from")) for text in said)
    (folder,) = tmp_path.iterdir()
    names = sorted(path.suffix or path.name for path in folder.iterdir())
    assert names == [".lock", ".so"]  # built once
    third = process(tmp_path)
    assert third.communicate(timeout=280)[0].startswith("loaded from")


@pytest.mark.parametrize(
    ("env", "reason"),
    [
        ({"PATH": ""}, "no C++ compiler"),
        ({"CXX": "no-such-compiler"}, "no-such-compiler is not on the PATH"),
        ({"CXX": "false"}, "could not compile"),
        ({"SUREPROX_NATIVE": "0"}, "switched off"),
    ],
)
def test_without_a_compiler_solves_are_plain_and_the_reason_is_told(monkeypatch, tmp_path, env, reason):
    monkeypatch.setenv("SUREPROX_NATIVE", "1")
    monkeypatch.setenv("SUREPROX_CACHE", str(tmp_path))
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    library.forget()
    monkeypatch.setattr(plans, "_plans", plans._Plans(4))
    problem = LassoFamily(m=3, n=1024, nonzeros=5).sample(8, torch.Generator().manual_seed(0))
    off = env.get("SUREPROX_NATIVE") == "0"  # asked for, so nothing is said
    with (
        warnings.catch_warnings()
        if off
        else pytest.warns(sp.EngineWarning, match=f"kernels are off.*{re.escape(reason)}")
    ):
        assert prepare(problem) == "plain"
    solution = solve(problem, max_iter=20)  # it is said once
    assert solution.engine == "plain"
    assert bool(torch.isfinite(solution.x).all())
    assert reason in native_status()
    assert "\n" not in native_status()
    library.forget()


def test_a_tiny_solve_needs_no_compiler(tmp_path):
    """Neither one of C++ nor that of torch, which alone takes seconds to import."""
    code = """
import torch, sys, sureprox as sp
A = torch.randn(20, 40, generator=torch.Generator().manual_seed(0))
sp.solve(sp.lasso(A / A.norm(dim=0), A[:, 0] / A[:, 0].norm(), 0.1), sp.optimizers.FISTA(restart=True), max_iter=50)
print("torch._dynamo" in sys.modules)
"""
    env = {**os.environ, "SUREPROX_NATIVE": "1", "SUREPROX_CACHE": str(tmp_path)}
    env.pop("SUREPROX_CHECK_SHAPES", None)
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, check=True, capture_output=True, text=True, timeout=240
    )
    assert done.stdout == "False\n"
    assert list(tmp_path.iterdir()) == []
