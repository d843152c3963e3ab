"""A compiled step is the eager step. In a process of its own: the shape checks of the test suite cannot be compiled."""

import os
import shutil
import subprocess
import sys

import pytest

SCRIPT = """
import torch
import sureprox as sp

torch.set_num_threads(1)
torch.manual_seed(0)
A, b = torch.randn(2, 6, 5, dtype=torch.float64), torch.randn(2, 6, dtype=torch.float64)
problem = sp.lasso(A, b, 0.1)
sure = sp.optimizers.Sure(coordinate=3, instance=4, conjugate=True)
for optimizer, names in (
    (sp.optimizers.GoMathL2O(hidden=4), "x v h c R Q B"),
    (sure, "x x_before g_before G_before t momentum instance_h instance_c coordinate_h coordinate_c R P"),
):
    step = torch.compile(optimizer.step, fullgraph=True)
    with torch.no_grad():
        eager = compiled = optimizer.init(problem, problem.start())
        for k in range(1, 5):
            eager, compiled = optimizer.step(problem, eager), step(problem, compiled)
            assert compiled.k == k
            for name in names.split():
                assert (getattr(compiled, name) - getattr(eager, name)).abs().max() <= 1e-10, (name, k)
        assert eager.x.abs().max() > 1e-3
print("same path")
"""


@pytest.mark.slow
@pytest.mark.skipif(
    not any(shutil.which(os.environ.get("CXX") or name) for name in ("g++", "clang++", "c++")),
    reason="torch.compile needs a C++ compiler",
)
def test_compiled_step_equals_eager_step(tmp_path):
    environment = {k: v for k, v in os.environ.items() if k != "SUREPROX_CHECK_SHAPES"}
    environment["TORCHINDUCTOR_CACHE_DIR"] = str(tmp_path)
    run = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr[-2000:]
    assert run.stdout.strip() == "same path"
