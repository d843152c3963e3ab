"""What the documentation shows works: its Python runs, its commands exist."""

from pathlib import Path

import pytest
import torch

from doc_pages import PAGES, README, ROOT, Reader, blocks, commands, parse

RUN_COMMANDS = {"quick_start", "own_optimizer"}  # pages whose commands are quick; those of the others are read, not run
DATA = ROOT.parent / "shared" / "data"
NEEDS_DATA = {"data"}

with_python = [page for page in PAGES if any(block.language == "python" for block in blocks(page))]


@pytest.mark.parametrize("page", with_python, ids=lambda page: page.stem)
def test_examples_run(
    page: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if page.stem in NEEDS_DATA:
        if not DATA.is_dir():
            pytest.skip("the real data, ../shared/data, are not here")
        monkeypatch.setenv("SUREPROX_DATA", str(DATA))
        monkeypatch.setenv("SUREPROX_CACHE", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    reader = Reader(page, monkeypatch)
    with torch.random.fork_rng(devices=[]):
        for block in blocks(page):
            if block.language == "python":
                reader.python(block)
            elif block.language == "sh" and page.stem in RUN_COMMANDS:
                for words in block.commands:
                    if words[0] == "sureprox":
                        reader.sureprox(words)


@pytest.mark.parametrize("page", [README, *PAGES], ids=lambda page: page.stem)
def test_commands_exist(page: Path) -> None:
    for words in commands(page):
        if words[0] == "sureprox":
            parse(words)
        elif words[0] == "python" and words[1] != "-m":
            assert (ROOT / words[1]).is_file(), f"{page.name} runs {words[1]}, which is not there"


@pytest.mark.parametrize("wrong", [["sureprox", "solv"], ["sureprox", "solve", "p.npz", "--lambda", "2"]])
def test_a_command_that_does_not_exist_is_noticed(wrong: list[str]) -> None:
    with pytest.raises(Exception, match="No such"):
        parse(wrong)
