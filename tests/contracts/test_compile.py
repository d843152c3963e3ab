"""A step that PyTorch has captured whole is the step. In a process of its own: shape checks cannot be captured.

What its compiler for C++ then makes of it is compared in `tests/backends/test_compiled.py`, which takes minutes.
"""

import os
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
    step = torch.compile(optimizer.step, fullgraph=True, backend="aot_eager")
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
def test_a_captured_step_is_the_step():
    environment = {k: v for k, v in os.environ.items() if k != "SUREPROX_CHECK_SHAPES"}
    run = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr[-2000:]
    assert run.stdout.strip() == "same path"
