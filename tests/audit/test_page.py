"""The audit as one page: everything in it, nothing outside."""

import base64
from html.parser import HTMLParser
from pathlib import Path

from sureprox.audit.page import html

PICTURE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


class Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []
        self.cells: list[str] = []

    def handle_starttag(self, tag, attrs):
        if tag not in ("meta", "img", "br", "hr"):
            self.open.append(tag)
        self.links += [value for name, value in attrs if name in ("src", "href")]

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)  # these have no end of their own

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "td":
            self.cells.append(data)


def test_tables_pictures_and_errata_are_in_one_page(tmp_path: Path):
    (tmp_path / "gains.png").write_bytes(PICTURE)
    audit, errata = tmp_path / "audit.md", tmp_path / "errata.md"
    table = "| a | b |\n| --- | --- |\n| 1 < 2 | x |"
    audit.write_text(f"# Audit\n\nSee [the errata](errata.md).\n\n{table}\n\n![g](gains.png)\n")
    errata.write_text("# Errata\n\n```text\nF <= 0\n```\n")
    page = html(audit, errata)
    reader = Reader()
    reader.feed(page)
    assert reader.open == []
    assert reader.cells == ["1 < 2", "x"]
    picture = f"data:image/png;base64,{base64.b64encode(PICTURE).decode()}"
    assert sorted(reader.links) == sorted(["#errata", picture])
    assert 'id="errata"' in page
    assert "F &lt;= 0" in page
