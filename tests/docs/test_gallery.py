"""The pictures of the gallery come from the script it names."""

import json
import sys
from pathlib import Path

import pytest
from matplotlib import pyplot as plt

import sureprox as sp
from doc_pages import ROOT

pytest.importorskip("PIL", reason="the photographs need Pillow")
sys.path.insert(0, str(ROOT / "benchmarks"))

import gallery_figures
import imaging_race

import imaging


def test_every_figure_is_drawn_and_committed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUREPROX_CACHE", str(tmp_path / "cache"))
    gallery_figures.main(["--out", str(tmp_path)])
    page = (ROOT / "docs" / "gallery.md").read_text()
    for draw in gallery_figures.FIGURES:
        name = f"{draw.__name__}.png"
        assert f"images/{name}" in page
        new, committed = plt.imread(tmp_path / name), plt.imread(ROOT / "docs" / "images" / name)
        assert new.shape == committed.shape
        assert (new[..., :3] < 0.9).any(2).mean() > 0.01  # something is drawn


@pytest.mark.parametrize("name", imaging.TASKS)
def test_small_photographs_are_restored_and_the_large_ones_committed(name, tmp_path):
    task, words = imaging.TASKS[name]
    images = task(32)
    assert images.numbers["gap_over_objective"] <= imaging.GAP
    assert images.numbers["psnr_found"] > images.numbers["psnr_given"] + 2
    imaging.draw(images, words, tmp_path / "new.png")
    assert f"images/{name}.png" in (ROOT / "docs" / "gallery.md").read_text()
    assert plt.imread(tmp_path / "new.png").shape == plt.imread(ROOT / "docs" / "images" / f"{name}.png").shape


def test_the_record_of_the_photographs_is_that_of_converged_solves_in_flat_memory():
    record = json.loads((ROOT / "benchmarks" / "records" / "imaging.json").read_text())
    for name, size in (("deblur", 256), ("denoise", 512)):
        found = record[name]
        assert found["size"] == [size, size]
        assert found["gap_over_objective"] <= imaging.GAP
        memory = found["peak_memory_MiB"]
        assert memory["at_end"] <= memory["at_start"] + 64 * size**2 * 8 / 2**20  # however many iterations it took


def test_the_race_of_the_photographs_is_to_the_same_gap():
    """Small images, and the record of the large ones."""
    races = {
        "deblurring": (imaging_race.deblur_race(32), {"restarted FISTA", "PANOC"}),
        "TV": (imaging_race.denoise_race(32), {"sp.tv_denoise", "PANOC"}),
    }
    for name, (rows, methods) in races.items():
        found = dict(rows)
        assert methods <= set(found)
        assert all(row["gap / F"] <= imaging.GAP for row in found.values())
        assert max(row["PSNR, dB"] for row in found.values()) - min(row["PSNR, dB"] for row in found.values()) < 0.1, (
            name
        )
    path = ROOT / "benchmarks" / "records" / "imaging_race.json"
    if not path.exists():
        pytest.skip("not measured yet: python benchmarks/imaging_race.py writes imaging_race.json")
    record = json.loads(path.read_text())
    rivals = ("sp.tv_denoise", "PANOC", "Chambolle, scikit-image")
    assert {f"TV, 512 x 512: {rival}" for rival in rivals} <= set(record["answers"])
    assert all(row["gap / F"] <= imaging.GAP for row in record["answers"].values())


def test_the_objective_of_the_race_is_that_of_the_package():
    image = imaging.noisy(imaging.flower()[:20, :30], 0.1)
    found = sp.tv_denoise(image, 0.2, tol=1e-6)
    assert imaging_race.objective(found.x, image, 0.2) == pytest.approx(float(found.objective), rel=1e-12)
