"""The pictures of the gallery come from the script it names."""

import sys
from pathlib import Path

import pytest
from matplotlib import pyplot as plt

from doc_pages import ROOT

pytest.importorskip("PIL", reason="the photographs need Pillow")
sys.path.insert(0, str(ROOT / "benchmarks"))

import gallery_figures


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
