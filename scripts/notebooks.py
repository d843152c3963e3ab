"""Make the notebooks of docs/tutorials from the pages there, executed, with their figures.

    python scripts/notebooks.py             # all of them
    python scripts/notebooks.py own_optimizer

A page in Markdown is the source: the site shows it, the tests run it, and this script makes PAGE.ipynb of it, with what
its blocks print and draw. A figure is written to docs/tutorials/images/PAGE_K.png too, where the page shows it; in the
notebook the figure stands for the picture. `tests/docs/test_tutorials.py` compares the cells with the pages.
"""

import argparse
import base64
import contextlib
import io
import json
import os
import re
import sys
import tempfile
import types
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "tutorials"
BLOCK = re.compile(r"^```python\n(.*?)^```\n", flags=re.DOTALL | re.MULTILINE)
PICTURE = re.compile(r"^!\[[^\]]*\]\(images/[^)]*\)\n", flags=re.MULTILINE)
ITSELF = re.compile(r"^\*This page is also a notebook.*\*\n", flags=re.MULTILINE)
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}


def cells(page: str) -> list[tuple[str, str]]:
    """("markdown" or "code", source) of a page; pictures are left out, since the cell above draws them."""
    found = []
    for k, part in enumerate(BLOCK.split(ITSELF.sub("", page))):
        source = (part if k % 2 else PICTURE.sub("", part)).strip()
        if source:
            found.append(("code", source) if k % 2 else ("markdown", re.sub(r"\n{3,}", "\n\n", source)))
    return found


def lines(source: str) -> list[str]:
    return source.splitlines(keepends=True)


def executed(page: Path) -> tuple[dict[str, Any], list[bytes]]:
    """The notebook, and its figures as PNG."""
    import matplotlib

    matplotlib.use("Agg")
    session = types.ModuleType(f"page_{page.stem}")
    sys.modules[session.__name__] = session  # dataclasses look their module up
    made: list[dict[str, Any]] = []
    figures: list[bytes] = []
    for number, (kind, source) in enumerate(cells(page.read_text(encoding="utf-8"))):
        cell: dict[str, Any] = {"cell_type": kind, "id": f"cell-{number}", "metadata": {}, "source": lines(source)}
        if kind == "code":
            text, drawn = run(source, session)
            figures += drawn
            outputs: list[dict[str, Any]] = []
            if text:
                outputs.append({"name": "stdout", "output_type": "stream", "text": lines(text)})
            for png in drawn:
                data = {"image/png": base64.b64encode(png).decode()}
                outputs.append({"data": data, "metadata": {}, "output_type": "display_data"})
            cell |= {"execution_count": sum(one["cell_type"] == "code" for one in made) + 1, "outputs": outputs}
        made.append(cell)
    about = {"kernelspec": KERNEL, "language_info": {"name": "python"}}
    return {"cells": made, "metadata": about, "nbformat": 4, "nbformat_minor": 5}, figures


def run(source: str, session: types.ModuleType) -> tuple[str, list[bytes]]:
    """What a block prints, and what it draws."""
    from matplotlib import pyplot as plt

    said, drawn, others = io.StringIO(), [], {*plt.get_fignums()}
    with contextlib.redirect_stdout(said):
        exec(compile(source, session.__name__, "exec"), vars(session))
    for number in sorted({*plt.get_fignums()} - others):
        picture = io.BytesIO()
        plt.figure(number).savefig(picture, format="png", dpi=120, metadata={"Software": None})
        drawn.append(picture.getvalue())
        plt.close(number)
    return said.getvalue(), drawn


def main() -> None:
    parser = argparse.ArgumentParser(description="Make the notebooks of docs/tutorials, executed.")
    parser.add_argument("names", nargs="*", help="pages without .md; all by default")
    asked = parser.parse_args().names
    import torch

    torch.set_num_threads(1)
    for page in sorted(FOLDER.glob("*.md")):
        if asked and page.stem not in asked:
            continue
        here = os.getcwd()
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            try:
                notebook, figures = executed(page)
            finally:
                os.chdir(here)
        page.with_suffix(".ipynb").write_text(json.dumps(notebook, indent=1) + "\n")
        for number, png in enumerate(figures, start=1):
            picture = FOLDER / "images" / f"{page.stem}_{number}.png"
            picture.parent.mkdir(exist_ok=True)
            picture.write_bytes(png)
        print(f"{page.stem}: {len(notebook['cells'])} cells, {len(figures)} figures")


if __name__ == "__main__":
    main()
