"""Statistics of problems against plain numpy, and whether a model knows such problems."""

import numpy as np
import pytest
import torch

import sureprox as sp
from helpers import F64, normal
from sureprox.advice.familiarity import familiarity
from sureprox.advice.features import features
from sureprox.sources import LassoFamily, LassoMixture, LogisticFamily
from sureprox.training.config import family_dict

SMALL = LassoFamily(m=20, n=40, nonzeros=5)


@pytest.fixture
def model(tmp_path):
    """model(optimizer, family): the path of an untrained model whose card names this family."""

    def save(optimizer=None, family=SMALL):
        path = tmp_path / "kind" / "model"
        path.parent.mkdir(exist_ok=True)
        sp.save(optimizer or sp.optimizers.GoMathL2O(hidden=4), path, family=family_dict(family) if family else {})
        return str(path)

    return save


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("kind", ["lasso", "logistic"])
def test_features_are_what_they_say(kind, shared):
    A, target = normal(12, 8) if shared else normal(3, 12, 8), normal(3, 12, seed=1)
    lam = torch.tensor([0.1, 0.2, 0.3], dtype=F64)
    problem = sp.lasso(A, target, lam) if kind == "lasso" else sp.logistic(A, (target > 0).double(), lam)
    found = {name: 10 ** values.numpy() for name, values in features(problem).items()}
    for i in range(3):
        M = (A if shared else A[i]).numpy()
        norms = np.linalg.norm(M, axis=0)
        unit = M / norms
        pull = M.T @ target[i].numpy() if kind == "lasso" else M.T @ (0.5 - (target[i] > 0).double().numpy()) / 12
        eigenvalues = np.linalg.svd(M, compute_uv=False) ** 2
        expected = {
            "columns": 8,
            "rows / columns": 1.5,
            "lam / lam_max": lam[i].item() / np.abs(pull).max(),
            "lam": lam[i].item(),
            "column norm": np.median(norms),
            "spread of column norms": np.quantile(norms, 0.95) / np.quantile(norms, 0.05),
            "correlation of neighbours": np.mean([abs(unit[:, j] @ unit[:, j + 1]) for j in range(7)]),
            "L / mean eigenvalue": 1.01 * eigenvalues.max() / eigenvalues.mean(),  # 1.01: the safety factor of L
        }
        assert set(expected) == set(found)
        for name, value in expected.items():
            np.testing.assert_allclose(found[name][i], value, rtol=1e-6, err_msg=name)


def test_degenerate_matrices_have_features():
    for A in (torch.zeros(4, 3, dtype=F64), torch.ones(1, 1, dtype=F64)):
        found = features(sp.lasso(A, torch.ones(len(A), dtype=F64), 0.0))
        assert all(bool(torch.isfinite(values).all()) for values in found.values())


def test_problems_of_the_training_are_familiar(model):
    fresh = torch.Generator().manual_seed(5)
    found = familiarity(model(), SMALL.sample(32, fresh, F64))
    assert found.score > 0.9
    assert "like those it was trained on" in found.words
    assert all(0.95 * entry.low <= entry.value <= 1.05 * entry.high for entry in found.statistics)


def test_other_problems_are_not(model):
    generator = torch.Generator().manual_seed(5)
    path = model()
    wider = familiarity(path, LassoFamily(m=40, n=400, nonzeros=5, lam=1e-4).sample(4, generator, F64))
    outside = {entry.name for entry in wider.statistics if entry.inside == 0}
    assert {"columns", "rows / columns", "lam", "lam / lam_max"} <= outside
    assert wider.score < 0.5
    assert "unlike" in wider.words
    assert "columns" in wider.words


def test_units_matter_only_to_methods_that_see_them(model):
    base = SMALL.sample(8, torch.Generator().manual_seed(5), F64)
    scaled = sp.lasso(1000 * base.f.A, 1000 * base.f.b, 1e6 * base.r.lam)  # the same problem in other units
    seen = familiarity(model(), scaled)
    assert {entry.name for entry in seen.statistics if entry.inside == 0} == {"lam", "column norm"}
    blind = familiarity(model(sp.optimizers.Sure(coordinate=2, instance=3)), scaled)
    assert {entry.name for entry in blind.statistics} == {e.name for e in seen.statistics} - {"lam", "column norm"}
    assert blind.score > 0.9


def test_mixtures_are_wide(model):
    mixture = LassoMixture(m=24, n=40)
    found = familiarity(model(family=mixture), mixture.sample(32, torch.Generator().manual_seed(5), F64))
    assert found.score > 0.9


def test_unknown_families_are_said(model):
    problem = SMALL.sample(2, torch.Generator().manual_seed(5), F64)
    found = familiarity(model(family=None), problem)
    assert found.score is None
    assert "does not say which family" in found.words
    own = familiarity(model(), sp.Problem(problem.f, sp.problems.Zero()))
    assert own.score is None


def test_a_logistic_card(model):
    family = LogisticFamily(m=50, n=10, nonzeros=3)
    found = familiarity(model(family=family), family.sample(16, torch.Generator().manual_seed(5), F64))
    assert found.score > 0.9
