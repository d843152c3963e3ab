"""The documentation as a program: the code blocks of a page, in order, run in one namespace and one directory."""

import re
import shlex
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import typer

from sureprox.cli import main
from sureprox.cli.app import app

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
PAGES = sorted([*(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "tutorials").glob("*.md")])

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", flags=re.DOTALL | re.MULTILINE)
INLINE = re.compile(r"`(sureprox [^`]+)`")
ENDS_EARLY = {"--help", "--version", "--install-completion"}


@dataclass(frozen=True)
class Block:
    language: str
    text: str
    line: int  # of the file, where the text begins

    @property
    def commands(self) -> list[list[str]]:
        """The commands of a block of shell, as words."""
        lines = self.text.replace("\\\n", " ").splitlines()
        return [words for words in (shlex.split(line, comments=True) for line in lines) if words]


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [Block(found[1], found[2], text.count("\n", 0, found.start(2)) + 1) for found in BLOCK.finditer(text)]


def commands(page: Path) -> Iterator[list[str]]:
    """Every command of the page: those of its blocks, and `sureprox ...` within the text."""
    for block in blocks(page):
        if block.language == "sh":
            yield from block.commands
    prose = BLOCK.sub("", page.read_text(encoding="utf-8"))
    for inline in INLINE.findall(prose):
        yield shlex.split(re.sub(r"\.\.\.|[\[\]]", "", inline))  # what is optional is read too


class Reader:
    """Somebody who types what a page says, into one Python session and one shell."""

    def __init__(self, page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.page = page
        self.monkeypatch = monkeypatch
        self.session = types.ModuleType(f"page_{page.stem}")
        monkeypatch.setitem(sys.modules, self.session.__name__, self.session)

    def python(self, block: Block) -> None:
        # blank lines in front, so that a traceback names the line of the page
        code = compile("\n" * (block.line - 1) + block.text, str(self.page), "exec")
        exec(code, vars(self.session))

    def sureprox(self, words: list[str]) -> None:
        self.monkeypatch.setattr(sys, "argv", words)
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 0, f"{self.page.name}: {shlex.join(words)} ended with {ended.value.code}"


def parse(words: list[str]) -> None:
    """Let the command line read a command without running it; raises where a command or an option does not exist.

    A bare `sureprox solve`, as a text names it, is read no further than its name.
    """
    if ENDS_EARLY & set(words):
        return
    command = typer.main.get_command(app)
    context = command.make_context("sureprox", words[1:])
    while hasattr(command, "resolve_command"):
        name, command, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        if not rest:
            return
        context = command.make_context(name, rest, parent=context)
