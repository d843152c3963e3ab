"""Thousands of random solves with random options against a truth in long double: no answer claims what is not so."""

import json
import os
import subprocess
import sys
from pathlib import Path

import fuzz_solves
import numpy as np
import pytest
import torch
from exact import LD, SQUARES, Exact, lowest
from random_problems import KINDS, random_batch

import sureprox as sp
from hardening import LIMIT, count

PARTS = range(count(reduced=4, full=20))
SOLVES = count(reduced=500, full=2_500)  # of each part
CASES = 1_000  # numbers of cases for each part, many more than it needs
SCRIPT = Path(__file__).with_name("fuzz_solves.py")


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
def test_no_solve_claims_what_is_not_so(part, tmp_path, record_property):
    out = tmp_path / "found.json"
    hidden = ("SUREPROX_CHECK_SHAPES", "SUREPROX_ENGINE")  # what users run: kernels, shapes unchecked
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    paths = [str(SCRIPT.parents[1]), environment.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    command = [sys.executable, str(SCRIPT), str(SOLVES), str(out), str(CASES * part)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LIMIT)
    found = json.loads(out.read_text()) if out.exists() else {}
    assert done.returncode == 0, f"it crashed on case {found.get('solving')}: {done.stderr[-2000:]}"
    record_property(
        "hardening",
        f"{found['solves']:,} random solves: {found['claims']:,} said to be converged, {found['tight']:,} of them "
        f"against a minimum known well enough to tell, {len(found['failures'])} false claims; "
        f"{found['refused']} batches refused with one line",
    )
    assert found["failures"] == [], "each again by: PYTHONPATH=tests python tests/hostile/fuzz_solves.py CASE"
    assert found["solves"] >= SOLVES
    # the claims are many, and nearly all of them could have been refuted
    assert found["claims"] > 0.2 * found["solves"]
    assert found["tight"] > 0.9 * found["claims"]


def test_the_first_cases_are_of_every_kind():
    numbers = [CASES * part + k for part in range(4) for k in range(50)]
    assert {fuzz_solves.case(number)[0].text.partition(":")[0] for number in numbers} == set(KINDS)


def test_a_case_is_the_same_every_time():
    one, other = fuzz_solves.case(3), fuzz_solves.case(3)
    assert one[0].text == other[0].text
    assert one[1].text == other[1].text
    assert all(torch.equal(a, b) for a, b in zip(one[0].problem.tensors(), other[0].problem.tensors(), strict=True))


@pytest.mark.parametrize("lie", ["point", "gap", "objective"])
def test_a_false_claim_is_noticed(lie, monkeypatch):
    def lying(problem, **options):
        options["max_iter"] = 300
        solution = sp.Solution(**vars(truthful(problem, **options)))
        if lie == "point":
            solution.x.mul_(0.9)
            solution.status[:] = sp.Status.CONVERGED
        elif lie == "gap":
            solution.gap.fill_(0.0)
            solution.x.mul_(0.9)
        else:
            solution.objective.mul_(1 + 1e-6)
        return solution

    truthful = sp.solve
    case = next(k for k in range(100) if "lasso: " in fuzz_solves.case(k)[0].text)
    monkeypatch.setattr(sp, "solve", lying)
    verdicts, _ = fuzz_solves.judged(case)
    told = {"point": "converged", "gap": "gap", "objective": "objective"}[lie]
    assert any(fault.startswith(told) for verdict in verdicts for fault in verdict.faults)


@pytest.mark.parametrize("seed", range(6))
def test_the_truth_of_a_diagonal_problem_is_its_formula(seed):
    """A = diag(a): x = soft(a b, w) / (a^2 + mu), cut to its range."""
    chance = np.random.default_rng(seed)
    a, b = (chance.standard_normal(9).astype(LD) for _ in range(2))
    w, mu = chance.random(9).astype(LD), chance.choice([0.0, 0.5], 9).astype(LD)
    low, high = np.full(9, -0.3, LD), np.full(9, 0.4 if seed % 2 else np.inf, LD)
    problem = Exact(np.diag(a), b, np.ones(9, LD), np.ones(9, LD), SQUARES, w, mu, low, high)
    known = np.clip(np.sign(a * b) * np.maximum(np.abs(a * b) - w, 0) / (a * a + mu), low, high)
    found = lowest(problem, np.zeros(9, LD), 1e-17)
    assert np.abs(found.x - known).max() < 1e-8
    assert abs(found.value - problem.value(known)) < 1e-16


def test_the_excess_is_a_bound_and_small_at_the_truth():
    loose = set()
    for seed in range(12):
        chance = np.random.default_rng(seed)
        for exact in random_batch(chance).exact[:1]:
            x = chance.standard_normal(len(exact.w)).astype(LD) * np.isinf(exact.high)
            x = np.clip(x, exact.low, exact.high)
            truth = lowest(exact, x, 0.0)
            assert exact.excess(x) >= float(exact.value(x) - truth.value) - exact.rounding(x)
            if truth.excess > 1e-12 * exact.value(np.zeros_like(x)):
                loose.add(seed)
    assert loose <= {5, 7, 10}  # a quantile loss, a b of 1e-12, and counts with identity link
