"""docs/errata.md is what the audit writes."""

from pathlib import Path

from sureprox.audit.errata import errata
from sureprox.audit.statements import STATEMENTS, Verdict

PAGE = Path(__file__).parents[2] / "docs" / "errata.md"


def test_page_is_up_to_date() -> None:
    assert PAGE.read_text() == errata(), "run: python -c 'from sureprox.audit.errata import main; main()'"


def test_page_has_every_false_statement() -> None:
    text = PAGE.read_text()
    for statement in STATEMENTS:
        assert (f"## {statement.name} (" in text) == (statement.verdict is Verdict.FALSE)
