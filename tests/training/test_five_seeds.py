"""scripts/five_seeds.py: every model from every seed, best in validation, nothing picked, and it goes on."""

from dataclasses import replace

import pytest

import five_seeds
from sureprox.evaluation import FIGURES, Request
from sureprox.evaluation.record_files import read_seeds
from sureprox.optimizers import pretrained, read_card
from sureprox.optimizers.weights import chosen_by_validation
from sureprox.training import Recipe, preset, settings
from training_cases import LASSO, small_config


def test_all_models_of_the_figures_are_trained() -> None:
    shown = {line.optimizer for spec in FIGURES.values() for line in spec.lines if "/" in line.optimizer}
    assert shown <= set(five_seeds.recipes())


def test_what_differs_from_the_papers_recipe_differs_in_one_thing() -> None:
    made, plain = five_seeds.causes(), preset("lasso-7", "l2o-pa")
    assert made["l2o-pa/lasso-detached"] == replace(plain, arguments=plain.arguments | {"detached": True})
    assert made["l2o-pa/lasso-clipped"] == replace(plain, training=replace(plain.training, clip=1.0))
    for name, number in (("bp-50", 15), ("bp-100", 23)):
        assert made[f"l2o-pa/lasso-{name}"].training == replace(settings()[number], clip=0.0)
    assert made["go-math-l2o/lasso-any-start"].training == preset("lasso-7").training
    assert len(five_seeds.released()) == 8


@pytest.fixture
def small(monkeypatch):
    def recipe(kind: str) -> Recipe:
        arguments = {"hidden": 4, "layers": 1}
        return Recipe(kind, arguments, LASSO, small_config(batches=2, epochs=1))

    monkeypatch.setattr(five_seeds, "recipes", lambda: {f"{k}/lasso": recipe(k) for k in ("go-math-l2o", "l2o-pa")})


def test_every_seed_is_trained_once_and_chosen_by_validation(small, tmp_path, capsys) -> None:
    five_seeds.main(["--out", str(tmp_path), "--seeds", "0,1"])
    found = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.glob("seed-*/*/*/model.json"))
    assert found == [f"seed-{s}/{k}/lasso/model.json" for s in (0, 1) for k in ("go-math-l2o", "l2o-pa")]
    cards = [read_card((tmp_path / path).with_suffix("")) for path in found]
    assert all(chosen_by_validation(card) for card in cards)
    assert [card.seed for card in cards] == [0, 0, 1, 1]
    assert len({card.sha256 for card in cards}) == 4
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("model.safetensors")}
    five_seeds.main(["--out", str(tmp_path), "--seeds", "0,1", "l2o-pa/lasso"])  # nothing is done twice
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("model.safetensors")} == before
    capsys.readouterr()


def test_figures_of_each_seed_and_over_all(small, tmp_path, monkeypatch, capsys) -> None:
    five_seeds.main(["--out", str(tmp_path), "--seeds", "0,1"])
    monkeypatch.setattr(five_seeds, "LASSO_FIGURES", ("fig5",))
    monkeypatch.setattr(five_seeds, "LOGISTIC_FIGURES", ())
    monkeypatch.setattr(five_seeds, "FIGURES", {"fig5": FIGURES["fig5"]})
    monkeypatch.setattr(five_seeds, "chosen_figures", lambda names: ["fig5"])
    monkeypatch.setattr(five_seeds, "released", dict)
    monkeypatch.setattr(five_seeds, "causes", lambda: {"l2o-pa/lasso": None})
    five_seeds.reproduce(tmp_path, [0, 1], Request("quick", 1, 3))
    seeds = read_seeds(tmp_path / "records")
    weights = [each["fig5"].find("go-math-l2o/lasso", "lasso").weights for each in seeds]
    assert len(set(weights)) == 2
    assert all(each["fig5"].find("l2o-pa/lasso", "lasso") is not None for each in seeds)
    assert (tmp_path / "figures" / "fig5.png").stat().st_size > 10_000
    assert "2 seeds" in (tmp_path / "figures" / "claims.md").read_text()
    capsys.readouterr()


def test_an_unknown_model_is_one_line(small, tmp_path, capsys) -> None:
    with pytest.raises(SystemExit):
        five_seeds.main(["--out", str(tmp_path), "l2o-po/lasso"])
    assert "no model l2o-po/lasso; known are" in capsys.readouterr().err


def test_the_picked_weights_keep_a_name_that_says_so(small, tmp_path, monkeypatch, capsys) -> None:
    package, logs = tmp_path / "package", tmp_path / "logs"
    (package / "go-math-l2o").mkdir(parents=True)
    for suffix in (".json", ".safetensors"):
        (package / f"go-math-l2o/lasso{suffix}").write_text("picked")
    for module in (five_seeds, five_seeds.pretrain):
        monkeypatch.setattr(module, "PRETRAINED", package)
    monkeypatch.setattr(five_seeds.pretrain, "LOGS", logs)
    five_seeds.main(["--out", str(tmp_path), "--seeds", "0", "go-math-l2o/lasso", "--install"])
    assert (package / "go-math-l2o/lasso-picked.json").read_text() == "picked"
    assert chosen_by_validation(read_card(package / "go-math-l2o/lasso"))
    capsys.readouterr()


def test_no_model_of_a_figure_is_picked_but_one_which_says_so() -> None:
    """To be trained anew (five_seeds.py --install); until then its card, and the caption of every figure, say it."""
    shown = {line.optimizer for spec in FIGURES.values() for line in spec.lines} & set(pretrained())
    picked = {name for name in shown if not chosen_by_validation(read_card(name))}
    assert picked <= {five_seeds.PICKED}
    assert all(read_card(name).notes.startswith("picked") for name in picked)
