"""The notebooks of the tutorials hold what the pages say, executed, and the pages show their figures."""

import base64
import json

import pytest

import notebooks
from doc_pages import ROOT

PAGES = sorted((ROOT / "docs" / "tutorials").glob("*.md"))


def test_there_are_three() -> None:
    assert [page.stem for page in PAGES] == ["many_responses", "own_optimizer", "sparse_coding"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_notebook_is_its_page_executed(page) -> None:
    """If this fails: python scripts/notebooks.py"""
    notebook = json.loads(page.with_suffix(".ipynb").read_text())
    text = page.read_text()
    assert [(cell["cell_type"], "".join(cell["source"])) for cell in notebook["cells"]] == notebooks.cells(text)
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    outputs = [output for cell in code for output in cell["outputs"]]
    assert any(output["output_type"] == "stream" for output in outputs)
    drawn = [output["data"]["image/png"] for output in outputs if output["output_type"] == "display_data"]
    for number, figure in enumerate(drawn, start=1):
        picture = page.parent / "images" / f"{page.stem}_{number}.png"
        assert picture.read_bytes() == base64.b64decode(figure)
        assert f"images/{picture.name}" in text
    assert drawn


def test_what_a_block_prints_and_draws_is_kept(tmp_path, monkeypatch) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# Title\n\n```python\nx = 2\nprint(x)\n```\n\n![drawn](images/page_1.png)\n\n```python\ny = x + 1\n```\n"
    )
    notebook, figures = notebooks.executed(page)
    assert [cell["cell_type"] for cell in notebook["cells"]] == ["markdown", "code", "code"]
    assert notebook["cells"][1]["outputs"] == [{"name": "stdout", "output_type": "stream", "text": ["2\n"]}]
    assert figures == []
    page.write_text("```python\nprint(undefined)\n```\n")
    with pytest.raises(NameError):
        notebooks.executed(page)
