"""The jobs of the gallery, small: certified, and the same answers as the peers; their records and pictures."""

import json
import sys
from functools import partial
from importlib.util import find_spec

import numpy as np
import pytest
import torch
from matplotlib import pyplot as plt
from scipy.io import savemat

import sureprox as sp
from doc_pages import ROOT
from sureprox.base.errors import DataError

sys.path.insert(0, str(ROOT / "benchmarks"))

import fascicles
import index_tracking
import stability_selection
import unmixing
import unmixing_stream

import _killed
import _scenes

SAME = 1e-6
OURS = {
    "unmixing": unmixing.OURS,
    "index_tracking": index_tracking.OURS,
    "fascicles": fascicles.OURS,
    "stability_selection": stability_selection.OURS,
}


def record(name: str) -> dict:
    path = ROOT / "benchmarks" / "records" / f"{name}.json"
    if not path.exists():
        pytest.skip(f"not measured yet: python benchmarks/{name}.py writes {path.name}")
    return json.loads(path.read_text())


@pytest.mark.parametrize("name", OURS)
def test_the_record_is_of_certified_answers_that_no_peer_beats(name):
    answers = record(name)["answers"]
    ours = [row for words, row in answers.items() if OURS[name] in words]
    assert ours
    for row in ours:
        assert row["above the best / F"] <= SAME
        assert row["largest gap / F"] <= SAME
    assert len(answers) >= 4


@pytest.mark.parametrize("name", OURS)
def test_the_page_shows_picture_and_record(name):
    page = (ROOT / "docs" / f"{name}.md").read_text()
    assert f"{{record}} {name}\n" in page
    assert f"benchmarks/{name}.py" in page
    assert f"]({name}.md)" in (ROOT / "docs" / "gallery.md").read_text()
    record(name)  # its script draws the picture too
    assert f"images/{name}.png" in page
    assert (ROOT / "docs" / "images" / f"{name}.png").stat().st_size > 10_000


def test_a_small_scene_is_unmixed_as_by_nnls(tmp_path, monkeypatch):
    monkeypatch.setattr(unmixing, "STEPS", {"ADMM": 20, "restarted FISTA": 20, "scikit-learn": 20})
    A = _scenes.smooth_library()
    seen = unmixing.conditioning(A)
    assert 5e3 < seen["condition_number"] < 2e4
    assert 0.9998 < seen["largest_cosine"] < 1
    scene = _scenes.drawn_scene(A, (8, 9), 4)
    solution, rows = unmixing.unmix(A, scene, dict.fromkeys(unmixing.PEERS, 6))
    assert solution.converged.all()
    ours, peer = rows[unmixing.OURS], rows["nnls, 6 pixels"]
    assert max(ours["largest gap / F"], ours["above the best / F"]) <= SAME
    assert peer["above the best / F"] <= SAME
    assert rows["ADMM, 6 pixels"]["share within 1e-6"] == 0  # so the measure can say no
    unmixing.draw(A, scene, solution.x.numpy(), tmp_path / "new.png")
    assert (plt.imread(tmp_path / "new.png")[..., :3] < 0.9).any(2).mean() > 0.01  # something is drawn


def test_scenes_and_libraries_are_read_from_matlab_files(tmp_path):
    cube = np.random.default_rng(0).uniform(0.1, 2, (3, 4, 7))
    columns = cube.transpose(1, 0, 2).reshape(12, 7).T  # as MATLAB reshapes: column after column
    savemat(tmp_path / "cube.mat", {"scene_gt": np.ones((3, 4)), "scene": cube})
    savemat(tmp_path / "flat.mat", {"Y": columns, "nRow": 3, "nCol": 4})
    for name in ("cube", "flat"):
        scene = _scenes.read_scene(tmp_path / f"{name}.mat")
        assert scene.size == (3, 4)
        np.testing.assert_allclose(scene.pixels, cube.reshape(12, 7) / cube.max())
    spectra = np.arange(35.0).reshape(7, 5)
    savemat(tmp_path / "usgs.mat", {"datalib": spectra})
    savemat(tmp_path / "ends.mat", {"M": spectra})
    np.testing.assert_array_equal(_scenes.read_library(tmp_path / "usgs.mat"), spectra[:, 3:])
    np.testing.assert_array_equal(_scenes.read_library(tmp_path / "ends.mat"), spectra)
    with pytest.raises(DataError, match="M \\(7, 5\\); a scene is"):
        _scenes.read_scene(tmp_path / "ends.mat")
    with pytest.raises(DataError, match="a library is datalib"):
        _scenes.read_library(tmp_path / "flat.mat")


def test_pixels_that_are_lost_or_exchanged_are_noticed(tmp_path):
    pieces = [partial(unmixing_stream.pixels, seed, 12) for seed in range(2)]
    sp.solve_many(pieces, out=tmp_path / "out", tol=unmixing_stream.TOL, chunk=12)
    checked = _killed.verified(tmp_path / "out", pieces, unmixing_stream.TOL)
    assert (checked["problems"], checked["not_solved"]) == (24, 0)
    shard = tmp_path / "out" / "shard-00000001.npz"
    with np.load(shard) as held:
        arrays = dict(held)
    np.savez(shard, **arrays | {"x": arrays["x"][::-1]})
    assert _killed.verified(tmp_path / "out", pieces, unmixing_stream.TOL)["not_solved"] >= 10


def test_the_record_of_the_stream_has_each_pixel_once_in_flat_memory():
    found = record("unmixing_stream")
    assert found["verified"]["problems"] == found["setting"]["pixels"]
    assert found["verified"]["not_solved"] == 0
    assert found["verified"]["scratch_files_left"] == []
    assert found["killed"]["times"] == 1
    assert found["killed"]["shards_found_at_start"][1] > 0
    for tenths in found["killed"]["peak_of_each_tenth_of_the_seconds"]:
        assert max(tenths[5:]) < 1.2 * max(tenths[:5])


def drawn_windows() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    shares = 0.01 * rng.standard_normal((90, 6)) + 0.01 * rng.standard_normal((90, 1))
    index = shares @ np.array([0.5, 0.3, 0.2, 0, 0, 0]) + 0.004 * rng.standard_normal(90) - 0.5 * shares[:, 5]
    return index_tracking.windows(shares, 60), index_tracking.windows(index, 60)


def test_a_portfolio_of_the_whole_budget_tracks_best():
    R, y = drawn_windows()
    w, certified, rows = index_tracking.track(R, y, dict.fromkeys(index_tracking.FIRST, 4))
    assert certified.all()
    assert bool((w >= 0).all())
    torch.testing.assert_close(w.sum(1), torch.ones(len(w), dtype=torch.float64))
    assert bool((w == 0).any(1).all())  # shares are left out
    ours = rows[index_tracking.OURS]
    assert max(ours["largest gap / F"], ours["above the best / F"]) <= 1e-9
    assert rows["nnls, 4 windows"]["above the best / F"] <= 1e-9
    value, gap = index_tracking.by_frank_wolfe(R, y)(torch.full_like(w, 1 / 6))
    best, _ = index_tracking.by_frank_wolfe(R, y)(w)
    assert bool((gap >= value - best).all())
    assert bool((value > 1.1 * best).all())


def test_the_prices_of_skfolio_are_read():
    if find_spec("skfolio") is None:
        pytest.skip("skfolio, whose prices the page on index tracking is about, is not installed")
    found = index_tracking.returns()
    assert found is not None
    shares, index, names, days = found
    assert shares.shape == (8312, 20)
    assert index.shape == (8312,)
    assert names[0] == "AAPL"
    assert days[0] == "1990-01-03"
    assert np.abs(shares).max() < 1.5


def test_a_few_halves_as_by_loops(tmp_path):
    X, y, true = stability_selection.shuffled_copies(15)
    fitted, rows, others = stability_selection.compare(X, y, samples=6, alphas=8, halves=2)
    for row in rows.values():
        assert row["above the best / F"] <= 1e-3
    assert rows[stability_selection.OURS]["largest gap / F"] <= SAME
    assert rows[stability_selection.OURS]["above the best / F"] <= SAME
    assert rows["scikit-learn, tol 1e-10, 2 halves"]["above the best / F"] <= SAME
    assert others["scikit-learn, tol 1e-10, 2 halves"] <= 1 / 16
    stability_selection.draw(fitted, true, tmp_path / "new.png")
