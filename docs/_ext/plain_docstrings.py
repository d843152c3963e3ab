"""The docstrings of this package are plain text with formulas, not reStructuredText: |x|_1 is a norm, x* a solution.

This extension escapes what reStructuredText would read into them, and keeps their four forms: paragraphs, lists of
`name : meaning`, lists of `- item`, and indented formulas or code. Names in backticks become literals.
"""

import re
from typing import Any

ENTRY = re.compile(r"^(\w[\w, ]*) : (.*)$")
CODE = re.compile(r"`([^`]+)`")


def escaped(line: str) -> str:
    """The line, to be read as it stands; `code` becomes ``code``."""
    pieces = CODE.split(line)
    return "".join(
        f"``{piece}``" if i % 2 else re.sub(r"([\\*|_<>:\[\]])", r"\\\1", piece) for i, piece in enumerate(pieces)
    )


def paragraphs(lines: list[str]) -> list[list[str]]:
    """Runs of lines that are not blank."""
    found: list[list[str]] = [[]]
    for line in lines:
        if line.strip():
            found[-1].append(line)
        elif found[-1]:
            found.append([])
    return [paragraph for paragraph in found if paragraph]


def rewritten(paragraph: list[str]) -> list[str]:
    """A paragraph as reStructuredText."""
    if all(line.startswith(" ") for line in paragraph):
        return ["::", "", *(f"    {line}" for line in paragraph)]
    if paragraph[0].startswith("- "):
        return [f"{line[:2]}{escaped(line[2:])}" for line in paragraph]  # later lines of an item begin with two blanks
    if not ENTRY.match(paragraph[0]):
        return [escaped(line.strip()) for line in paragraph]
    made = []
    for line in paragraph:
        entry = ENTRY.match(line)
        made.append(f"* ``{entry[1]}``: {escaped(entry[2])}" if entry else f"  {escaped(line.strip())}")
    return made


def rewrite(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    lines[:] = [line for paragraph in paragraphs(lines) for line in [*rewritten(paragraph), ""]]


def setup(app: Any) -> dict[str, bool]:
    app.connect("autodoc-process-docstring", rewrite)
    return {"parallel_read_safe": True}
