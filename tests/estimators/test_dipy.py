"""The sparse fascicle model of dipy by `sureprox.dipy`; without dipy only that this is said."""

import builtins
import importlib
import sys
import warnings

import numpy as np
import pytest
from sklearn.linear_model import ElasticNet

from doc_pages import ROOT
from sureprox.base.errors import InputError

sys.path.insert(0, str(ROOT / "benchmarks"))

import fascicles


def test_without_dipy_a_line_says_what_to_install(monkeypatch):
    real = builtins.__import__

    def without(name, *rest, **more):
        if name.split(".")[0] == "dipy":
            raise ImportError("no")
        return real(name, *rest, **more)

    monkeypatch.delitem(sys.modules, "sureprox.dipy", raising=False)
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match="needs dipy; install it: pip install dipy"):
        importlib.import_module("sureprox.dipy")


@pytest.fixture
def volume():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of dipy and what it imports
        pytest.importorskip("dipy", reason="dipy, whose model this fits, is not installed")
        pytest.importorskip("nibabel", reason="nibabel, which reads dipy's voxels, is not installed")
        data, gtab = fascicles.measured("small_64D")
        yield data[:2, :2, :2].copy(), gtab


def model(gtab, solver):
    from dipy.reconst.sfm import SparseFascicleModel

    return SparseFascicleModel(gtab, solver=solver)


def test_the_batch_finds_what_the_loop_over_scikit_learn_finds(volume):
    from sureprox.dipy import Solver, fit

    data, gtab = volume
    data[0, 0, 0] = 0  # nothing was measured
    mask = np.ones(data.shape[:3], dtype=bool)
    mask[1, 1] = False
    exact = ElasticNet(alpha=0.001, l1_ratio=0.5, positive=True, tol=1e-9, max_iter=1_000_000)
    for given in (None, mask):
        wanted = model(gtab, exact).fit(data, mask=given)
        found = fit(model(gtab, Solver()), data, mask=given)
        np.testing.assert_allclose(found.beta, wanted.beta, atol=1e-5)
        np.testing.assert_allclose(found.predict(), wanted.predict(), rtol=1e-4)
        assert found.beta.max() > 0.1
        assert not found.beta[0, 0, 0].any()
    single = model(gtab, Solver()).fit(data[1:, :1, :1])
    np.testing.assert_allclose(single.beta, found.beta[1:, :1, :1], atol=1e-6)


def test_what_does_not_fit_is_refused(volume):
    from sureprox.dipy import Solver, fit

    data, gtab = volume
    with pytest.raises(InputError, match=r"solver ElasticNet; pass a SparseFascicleModel"):
        fit(model(gtab, "ElasticNet"), data)
    with pytest.raises(InputError, match=r"data has shape \(2, 2, 2, 64\); the gradient table needs \(..., 65\)"):
        fit(model(gtab, Solver()), data[..., 1:])
    with pytest.raises(InputError, match=r"mask has shape \(2, 2\)"):
        fit(model(gtab, Solver()), data, mask=np.ones((2, 2), dtype=bool))


def test_a_few_voxels_of_the_page(volume, tmp_path):
    data, gtab = volume
    flat = data.reshape(-1, data.shape[-1])
    found, rows, _ = fascicles.compare(flat, gtab, dict.fromkeys(fascicles.FIRST, 3))
    ours = rows[fascicles.OURS]
    assert max(ours["largest gap / F"], ours["above the best / F"]) <= 1e-6
    assert rows["dipy, tol 1e-10, 3 voxels"]["above the best / F"] <= 1e-6
    fascicles.draw(found, flat, gtab, data.shape[:3], tmp_path / "new.png")
    drawn = fascicles.drawn(gtab, 5)
    assert drawn.shape == (5, 65)
    assert (drawn.std(1) > 5).all()
