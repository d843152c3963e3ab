"""Names and cards come from anywhere: they are shown as they are, and no terminal obeys them."""

import json

import numpy as np
import pytest

from sureprox.cli.tables import Description, PlainConsole, new_table
from sureprox.optimizers import GoMathL2O, save

ODD = ["[/red]", "[bold]x", ":heart:", "a[0]"]


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("shards", [False, True])
def test_markup_in_the_names_of_files_is_text(command, tmp_path, name, shards):
    name = name.replace("/", "")  # a directory otherwise
    source = "[" if shards else f"{name}.npz"
    np.savez(tmp_path / f"{name}.npz", A=np.eye(3), b=np.ones(3), lam=0.1)
    (tmp_path / "[").mkdir()
    out = f"[/{name}]"
    (tmp_path / "[").joinpath(f"{name}.npz").write_bytes((tmp_path / f"{name}.npz").read_bytes())
    outcome = command("solve", source, *(("--shards", out) if shards else ("--out", out)))
    assert (outcome.code, outcome.err) == (0, "")
    assert out in outcome.out
    assert shards or f"{name}.npz" in outcome.out


@pytest.mark.parametrize(
    ("text", "shown"),
    [*((text, text) for text in ODD), ("\x1b[31mred", "\\x1b[31mred"), ("\u202e", "\\u202e"), ("\udcff", "\\udcff")],
)
def test_tables_bars_and_sentences_are_plain(capsys, text, shown):
    console = PlainConsole(width=100)
    table = new_table(text, "")
    table.add_row(text, text)
    console.print(table)
    console.print(text, text)

    class Task:
        description = text

    console.print(Description().render(Task()))
    out = capsys.readouterr().out
    assert out.count(shown) == 6
    assert out.replace("\n", "").isprintable()


def test_escapes_in_a_card_are_not_obeyed(command, tmp_path):
    save(GoMathL2O(hidden=2), tmp_path / "m", notes="made by a test")
    path = tmp_path / "m.json"
    card = json.loads(path.read_text())
    trick = "\x1b]0;title\x07\x1b[2J\nsureprox: all is well"
    path.write_text(json.dumps(card | {"notes": trick, "metrics": {trick: trick}}))
    outcome = command("models", "m")
    assert outcome.code == 0
    assert outcome.out.replace("\n", "").isprintable()
    assert "notes: \\x1b]0;title\\x07\\x1b[2J\\nsureprox: all is well" in outcome.out.splitlines()
