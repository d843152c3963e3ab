"""`sureprox models`: what the cards say, and one line where there is no such model."""

import json

from sureprox.optimizers import GoMathL2O

COUNT = sum(p.numel() for p in GoMathL2O(hidden=4).parameters())


def test_no_models_is_said(command, shelf) -> None:
    shelf()
    outcome = command("models")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.startswith("no pretrained optimizers are installed")
    assert json.loads(command("models", "--json").out) == []


def test_table_has_a_line_for_each_model(command, shelf) -> None:
    shelf("go-math-l2o/lasso", "go-math-l2o/other")
    outcome = command("models")
    assert outcome.code == 0
    lines = [line for line in outcome.out.splitlines() if "go-math-l2o/" in line]
    assert [line.split()[0] for line in lines] == ["go-math-l2o/lasso", "go-math-l2o/other"]
    for expected in ("lasso", f"{COUNT:,}", "20 x 40, 640 problems", "2026-01-02", "1.25", "KiB"):
        assert expected in lines[0]


def test_json_holds_the_whole_card(command, shelf) -> None:
    shelf("go-math-l2o/lasso")
    (found,) = json.loads(command("models", "--json").out)
    assert found["name"] == "go-math-l2o/lasso"
    assert found["parameters"] == COUNT
    assert found["bytes"] == 4 * COUNT
    assert found["arguments"]["hidden"] == 4
    assert found["metrics"] == {"validation_loss": 1.25}
    assert json.loads(command("models", "go-math-l2o/lasso", "--json").out) == found


def test_one_model_is_shown_whole(command, shelf) -> None:
    directory = shelf("go-math-l2o/lasso")
    lines = command("models", "go-math-l2o/lasso").out.splitlines()
    for expected in ("optimizer: go-math-l2o", "  hidden: 4", "  m: 20", "notes: made by a test", "date: 2026-01-02"):
        assert expected in lines
    by_path = command("models", str(directory / "go-math-l2o" / "lasso")).out.splitlines()
    assert by_path[1:] == lines[1:]


def test_unknown_name_is_one_line(refused, shelf) -> None:
    shelf("go-math-l2o/lasso")
    line = refused("models", "go-math-l2o/laso")
    assert "'go-math-l2o/laso'" in line
    assert "go-math-l2o/lasso" in line


def test_damaged_card_is_one_line(refused, shelf) -> None:
    directory = shelf("go-math-l2o/lasso")
    (directory / "go-math-l2o" / "lasso.json").write_text("{")
    assert "not a card" in refused("models")
