"""Tables on narrow terminals: nothing is cut off."""

import io

import pytest

from sureprox.cli.tables import TableConsole, counted, new_table

HEADINGS = ("problem", "status", "iterations", "objective", "relative gap", "found by")
ROW = ("price, lam 2", "converged", "10", "10.237997", "1.8e-15", "restarted fista")


def shown(width: int, *columns: str, row: tuple[str, ...]) -> str:
    console = TableConsole(file=io.StringIO(), width=width)
    table = new_table(*columns)
    table.add_row(*row)
    console.print(table)
    return console.file.getvalue()


def test_a_table_that_fits_is_a_table():
    lines = shown(100, *HEADINGS, row=ROW).split("\n")
    assert [len(line.split()) for line in lines if "price" in line] == [9]


@pytest.mark.parametrize("width", [30, 60])
def test_a_wider_one_is_a_paragraph_for_each_row(width):
    text = shown(width, *HEADINGS, row=ROW)
    assert text.splitlines()[0].strip() == "price, lam 2"
    for heading, cell in zip(HEADINGS[1:], ROW[1:], strict=True):
        assert f"  {heading}: {cell}" in text
    assert max(map(len, text.splitlines())) <= width


def test_a_pair_is_one_line_and_an_empty_cell_none():
    pair = shown(20, "summary", "", row=("problems", "3 lasso, 30 x 20"))
    assert " ".join(pair.split()) == "problems: 3 lasso, 30 x 20"
    assert "objective" not in shown(20, *HEADINGS, row=(*ROW[:3], "", *ROW[4:]))


def test_one_is_not_plural():
    assert (counted(1), counted(0), counted(1234, "row")) == ("1 problem", "0 problems", "1,234 rows")
