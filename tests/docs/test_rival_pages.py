"""Learned rivals and worst cases: what the records say is computed again in part, and held against naive code."""

import json
import sys

import numpy as np
import pytest
import torch

import sureprox as sp
from doc_pages import ROOT
from helpers import walk
from sureprox.guarantee import Certified
from sureprox.optimizers import FISTA, ISTA, StepSchedule

sys.path.insert(0, str(ROOT / "benchmarks"))

import learned_rivals
import worst_cases

import _performance_estimation as pep
from _rival_methods import HyperLISTA, SafeL2O, analytic_weights
from _rival_setups import lasso

F64 = torch.float64


def record(name: str) -> dict:
    return json.loads((ROOT / "benchmarks" / "records" / f"{name}.json").read_text())


def test_the_worst_case_of_five_steps_of_fista_and_certified_is_known_exactly():
    """Multipliers prove that it is no larger, our own FISTA on f = 0, r = c |x| that it is no smaller."""
    (row,) = (row for row in record("worst_cases")["exact"] if row["k"] == 5)
    bound, eigenvalue = pep.proved(pep.program(*pep.fista(5)), np.array(row["multipliers"]))
    assert eigenvalue >= -1e-12
    slope = 2 * pep.linear_case(*pep.fista(5))
    one = torch.ones(1, 1, dtype=F64)
    problem = sp.lasso(0 * one.unsqueeze(0), 0 * one, slope)
    attained = float(problem.objective(walk(problem, FISTA(), one, 5, step_size=one[0])[-1]))
    assert attained <= bound <= attained * (1 + 1e-6)
    still = worst_cases.Scripted(one.expand(1, len(worst_cases.PHASES)).unsqueeze(2), [0])
    certified = walk(problem, Certified(still), one, 5, step_size=one[0])[-1]
    assert float(problem.objective(certified)) == pytest.approx(attained, rel=1e-12)
    assert row["attained"] == pytest.approx(attained, rel=1e-12)
    assert row["proved"] == pytest.approx(bound, rel=1e-6)


def test_no_multipliers_prove_less_than_what_is_attained():
    (row,) = (row for row in record("worst_cases")["exact"] if row["k"] == 5)
    task, multipliers = pep.program(*pep.fista(5)), np.array(row["multipliers"])
    assert pep.proved(task, -multipliers)[0] == np.inf
    random = np.random.default_rng(0)
    for _ in range(20):
        other = multipliers * random.uniform(0.8, 1.2, len(multipliers))
        bound, eigenvalue = pep.proved(task, other)
        assert bound == np.inf or eigenvalue < -1e-9 or bound >= row["attained"]


@pytest.mark.parametrize("k", [1, 4])
def test_the_program_holds_for_runs_of_fista(k):
    """Gram matrices and values of runs on f(x) = h x^2 / 2, r(x) = c |x| satisfy every inequality of the program."""
    task = pep.program(*pep.fista(k))
    for h, c, x0 in ((1.0, 0.0, 1.0), (0.3, 0.2, -0.9), (0.8, 0.05, 1.0)):
        x = y = x0
        points, gradients, subgradients, smooth, rough = [], [], [], [], []
        for momentum in pep.fista(k)[1]:
            before, v = x, y - h * y
            smooth.append(h * y * y / 2)
            gradients.append(h * y)
            x = np.sign(v) * max(abs(v) - c, 0)
            subgradients.append(v - x)
            rough.append(c * abs(x))
            points.append(x)
            y = x + momentum * (x - before)
        vector = np.array([x0, 0.0, *gradients, h * x, *subgradients])
        values = np.array([*smooth, h * x * x / 2, *rough])
        sides = np.einsum("cij,i,j->c", task.M, vector, vector) + task.values @ values
        assert sides.max() <= 1e-12
        assert task.reached @ values == pytest.approx(h * x * x / 2 + c * abs(x))


def test_exact_values_lie_between_what_is_attained_and_the_theorem():
    for row in record("worst_cases")["exact"]:
        assert row["smallest_eigenvalue"] >= -1e-9
        assert row["attained"] <= row["proved"] * (1 + 1e-9)
        assert row["proved"] <= row["attained"] * (1 + 1e-4)
        assert row["proved"] <= row["theorem"]


def test_what_the_search_has_found_is_below_what_is_possible():
    for name, row in record("worst_cases")["search"]["table"].items():
        scheme, k = name.split(", k = ")
        assert row["theorem"] == pytest.approx(worst_cases.theorem(scheme, int(k)))
        assert row["no more than"] == pytest.approx(worst_cases.ceiling(scheme, int(k)), rel=1e-9)
        assert row["no more than"] <= row["theorem"]
        assert 0 < max(row[kind] for kind in worst_cases.KINDS) <= row["no more than"] * (1 + 1e-9)


@pytest.mark.parametrize("kind", worst_cases.KINDS)
def test_the_cases_of_the_search_have_known_solutions(kind):
    genes = 2 * torch.randn(50, worst_cases.GENES, generator=torch.Generator().manual_seed(0), dtype=F64)
    some = worst_cases.cases(genes, kind)
    step = torch.ones(50, 1, dtype=F64)
    assert (some.problem.proximal_step(some.solution, step) - some.solution).abs().max() <= 1e-9
    assert torch.linalg.matrix_norm(some.problem.f.A, 2).max() <= 1 + 1e-12
    for scheme in worst_cases.SCHEMES:
        bounds = torch.tensor([worst_cases.theorem(scheme, k) for k in worst_cases.KS], dtype=F64)
        assert (worst_cases.ratios(scheme, some) <= bounds).all()


@pytest.mark.parametrize("label", ["LAH Accel", "Sure"])
def test_a_row_of_the_record_again(label):
    """lasso 64 x 128, 1,000 instances: from the recorded schedule, and from the weights that ship."""
    known = record("learned_rivals")["settings"]["lasso 64 x 128"]
    facts = known["training"][label]
    optimizer = sp.load(facts["weights"]) if label == "Sure" else StepSchedule(facts["steps"], facts["momenta"])
    problem = lasso(64, 128, 1000, 0).tests["in distribution"]
    row = learned_rivals.counted(problem, optimizer, 1, sp.reference(problem).objective)
    for level, ours, theirs in zip(
        learned_rivals.LEVELS, row["mean"], known["mean"]["in distribution"][label].values(), strict=True
    ):
        assert abs(ours - theirs) <= (1 if level < 1e-5 else 0), (level, ours, theirs)


def test_sure_needs_at_most_half_of_what_learned_schedules_need():
    """At 1e-4, on the problem they were published on, in distribution and out of it: the claim of docs/rivals.md."""
    for found in record("learned_rivals")["settings"]["lasso 250 x 500"]["mean"].values():
        schedules = [row["1e-04"] for label, row in found.items() if label.startswith("LAH")]
        assert len(schedules) == 5
        assert 2 * found["Sure"]["1e-04"] <= min(k for k in schedules if k is not None)


def test_hyperlista_step_by_step():
    generator = np.random.default_rng(0)
    A, x = generator.normal(size=(8, 12)), np.zeros(12)
    A, b = A / np.linalg.norm(A, axis=0), generator.normal(size=8)
    W, inverse, c = analytic_weights(torch.tensor(A)), np.linalg.pinv(A), (0.02, 0.03, 0.2)
    np.testing.assert_allclose((W.numpy() * A).sum(0), 1, rtol=1e-12)
    problem = sp.lasso(torch.tensor(A), torch.tensor(b)[None], 0.1)
    before, compared = x, 0
    for ours in HyperLISTA(torch.tensor(A), W, torch.tensor(inverse), c).walk(problem, 6):
        error = np.abs(inverse @ (A @ x - b)).sum()
        theta, beta = c[0] * error, c[1] * np.count_nonzero(x)
        share = min(max(c[2] * np.log(np.abs(inverse @ b).sum() / error), 0), 1)
        z = x - W.numpy().T @ (A @ x - b) + beta * (x - before)
        largest = np.argsort(-np.abs(z))[: 1 + round(share * 11)] if share > 1e-9 else []
        after = np.sign(z) * np.maximum(np.abs(z) - theta, 0)
        for j in largest:
            after[j] = z[j] if abs(z[j]) >= theta else after[j]
            compared += abs(z[j]) >= theta
        before, x = x, after
        np.testing.assert_allclose(ours[0].numpy(), x, rtol=1e-9, atol=1e-12)
    assert compared > 3


def test_safe_l2o_falls_back_where_its_layers_blow_up():
    """Then it takes the steps of ISTA."""
    setting = lasso(64, 128, 5, 0)
    problem, A = setting.tests["in distribution"], setting.train.f.A
    layers = torch.full((20,), 50.0, dtype=F64)
    wild = SafeL2O(A, analytic_weights(A), layers, layers / 10, float(torch.linalg.matrix_norm(A, 2) ** 2))
    alone = walk(problem, ISTA(), problem.start(), 30, step_size=torch.full((5,), 1 / wild.L, dtype=F64))[1:]
    for x, ista in zip(wild.walk(problem, 30), alone, strict=True):
        torch.testing.assert_close(x, ista, rtol=1e-12, atol=1e-12)
