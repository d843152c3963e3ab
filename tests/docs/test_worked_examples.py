"""The worked examples of CONTRIBUTING.md, carried out in a copy of the package: a penalty, and a loss."""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from doc_pages import ROOT

CONTRIBUTING = ROOT / "CONTRIBUTING.md"
EDIT = re.compile(r"^In `([^`]+)`, (above|in place of) `([^`\n]+)`:\n\n```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)
MOST_FILES = 4

TRY_PENALTY = """
import torch
import sureprox as sp

generator = torch.Generator().manual_seed(0)
r = sp.penalties.BoundedL1(0.7, 1.5)

# argmin_x r(x) + (x - v)^2 / (2 step), on a grid of x that holds the bounds, zero and everything between
grid = torch.linspace(-2, 2, 400_001, dtype=torch.float64)
v = 3 * torch.randn(60, generator=generator, dtype=torch.float64)
fitted = r.fitted(60, 1)
cost = torch.where(grid.abs() <= 1.5 + 1e-12, 0.7 * grid.abs(), torch.inf)
best = torch.stack([grid[(cost + (grid - one) ** 2 / (2 * 0.9)).argmin()] for one in v])
found = fitted.prox(v.unsqueeze(1), torch.full((60, 1), 0.9, dtype=torch.float64))[:, 0]
assert (found - best).abs().max() < 2e-5
assert (found == 0).any() and (found.abs() == 1.5).any() and ((found != 0) & (found.abs() < 1.5)).any()

A = torch.randn(3, 20, 30, generator=generator, dtype=torch.float64)
b = 5 * torch.randn(3, 20, generator=generator, dtype=torch.float64)
problem = sp.Problem(sp.losses.LeastSquares(A, b), sp.penalties.BoundedL1(2.0, 0.2))
solution = sp.solve(problem, tol=1e-8, max_iter=20_000)
assert solution.converged.all() and torch.isfinite(solution.gap).all()
assert (solution.gap <= 1e-8 * solution.objective).all()
assert (solution.x == 0).any() and (solution.x.abs() == 0.2).any() and (solution.x.abs() <= 0.2).all()
# F at any point inside is no lower than objective - gap
for _ in range(200):
    x = (solution.x + 0.05 * torch.randn(3, 30, generator=generator, dtype=torch.float64)).clamp(-0.2, 0.2)
    assert (problem.objective(x) >= solution.objective - solution.gap).all()
"""

TRY_LOSS = """
import numpy as np
import torch
import sureprox as sp
from scipy.optimize import minimize

generator = torch.Generator().manual_seed(0)
A = torch.randn(2, 40, 5, generator=generator, dtype=torch.float64)
y = (A[:, :, 0] + 0.5 * torch.randn(2, 40, generator=generator, dtype=torch.float64) > 0).double()
problem = sp.Problem(sp.losses.SmoothHinge(A, y, smoothing=0.3), sp.penalties.L1(0.5))
solution = sp.solve(problem, tol=1e-9, max_iter=20_000)
assert solution.converged.all() and torch.isfinite(solution.gap).all()
for i in range(2):
    matrix, t = A[i].numpy(), 2 * y[i].numpy() - 1

    def objective(split):
        x = split[:5] - split[5:]
        s = 1 - t * (matrix @ x)
        value = np.where(s <= 0.3, np.clip(s, 0, None) ** 2 / 0.6, s - 0.15).sum()
        slope = matrix.T @ (-t * np.clip(s / 0.3, 0, 1))
        return value + 0.5 * split.sum(), np.concatenate([slope, -slope]) + 0.5

    best = minimize(objective, np.zeros(10), jac=True, bounds=[(0, None)] * 10, options={"ftol": 1e-15, "gtol": 1e-10})
    assert abs(float(solution.objective[i]) - best.fun) <= 1e-7 * best.fun
assert (solution.x != 0).any(1).all()
"""


@dataclass(frozen=True)
class Edit:
    file: str
    where: str  # above, or in place of
    text: str
    language: str  # python is a whole definition, with two blank lines after it; text is meant to the letter
    block: str

    def applied(self, content: str) -> str:
        if self.where == "above":
            (start,) = [found.start() for found in re.finditer(rf"^{re.escape(self.text)}", content, re.MULTILINE)]
            gap = "\n\n" if self.language == "python" else ""
            return content[:start] + self.block + gap + content[start:]
        assert content.count(self.text) == 1, f"{self.file} has {self.text!r} {content.count(self.text)} times"
        return content.replace(self.text, self.block.rstrip("\n"))


def edits(title: str) -> list[Edit]:
    """Those of the section of this title."""
    section = CONTRIBUTING.read_text(encoding="utf-8").split(f"\n### {title}\n")[1].split("\n### ")[0]
    found = [Edit(*match) for match in EDIT.findall(section)]
    assert len(found) == section.count("```") / 2, "a block does not say where it goes"
    return found


def carry_out(title: str, target: Path) -> set[str]:
    """A copy of the repository's code in `target` with the example in it; the files that were touched."""
    for folder in ("src", "tests", "docs"):  # with __pycache__, so that it starts sooner
        shutil.copytree(ROOT / folder, target / folder, ignore=shutil.ignore_patterns("images"))
    shutil.copy(ROOT / "pyproject.toml", target)
    steps = edits(title)
    for edit in steps:
        path = target / edit.file
        path.write_text(edit.applied(path.read_text(encoding="utf-8")), encoding="utf-8")
    return {edit.file for edit in steps}


def run(target: Path, *arguments: str) -> None:
    paths = os.pathsep.join([str(target / "src"), str(target / "tests")])
    environment = {
        **os.environ,
        "PYTHONPATH": paths,
        "OMP_NUM_THREADS": "1",
        "SUREPROX_ENGINE": "plain",
        "SUREPROX_CHECK_SHAPES": "",
    }
    command = [sys.executable, *arguments]
    ended = subprocess.run(command, cwd=target, env=environment, capture_output=True, text=True, timeout=240)
    assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-3000:]


@pytest.mark.parametrize(
    ("title", "name", "contract", "row", "trial"),
    [
        ("A penalty", "BoundedL1", "tests/problems/penalties/test_penalty_contract.py", "bounded", TRY_PENALTY),
        ("A loss", "SmoothHinge", "tests/problems/losses", "smooth and hinge and not scipy and not free", TRY_LOSS),
    ],
)
def test_the_example_works_in_four_files(title, name, contract, row, trial, tmp_path):
    touched = carry_out(title, tmp_path)
    assert len(touched) <= MOST_FILES
    assert any(file.startswith("src/") for file in touched)
    run(tmp_path, "-c", trial)
    run(tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", contract, "-k", row)
    assert f".. autoclass:: {name}\n" in (tmp_path / "docs" / "api.md").read_text()
    for tool in ("check", "format --check"):
        run(tmp_path, "-m", "ruff", *tool.split(), *[file for file in touched if file.endswith(".py")])
