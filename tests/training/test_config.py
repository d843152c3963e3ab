"""The paper's recipes to the letter, TOML and back, and every mistake in a recipe refused with one line."""

import tomllib
from dataclasses import asdict, replace

import pytest
import torch

import sureprox as sp
from helpers import refused
from sureprox.optimizers import FISTA
from sureprox.optimizers.kinds import BUILT_IN
from sureprox.sources import LassoFamily, LogisticFamily
from sureprox.training import (
    LayerwiseConfig,
    Loss,
    Recipe,
    StreamConfig,
    TrainingConfig,
    preset,
    preset_names,
    read_recipe,
    settings,
    train,
)
from training_cases import LASSO, layerwise_config, network, small_config

# index: segment, epochs, learning rate after each epoch, batch, loss; "Training Settings" in the paper's appendix
ONE, THREE = [0.01], [0.01, 0.001, 0.0001]
TABLE = {
    1: (20, 1, ONE, 64, "mean"),
    2: (20, 1, ONE, 64, "weighted"),
    3: (20, 1, ONE, 128, "mean"),
    4: (20, 1, ONE, 128, "weighted"),
    5: (20, 3, THREE, 64, "mean"),
    6: (20, 3, THREE, 64, "weighted"),
    7: (20, 3, THREE, 128, "mean"),
    8: (20, 3, THREE, 128, "weighted"),
    9: (50, 1, ONE, 64, "mean"),
    10: (50, 1, ONE, 64, "weighted"),
    11: (50, 1, ONE, 128, "mean"),
    12: (50, 1, ONE, 128, "weighted"),
    13: (50, 3, THREE, 64, "mean"),
    14: (50, 3, THREE, 64, "weighted"),
    15: (50, 3, THREE, 128, "mean"),
    16: (50, 3, THREE, 128, "weighted"),
    17: (100, 1, ONE, 64, "mean"),
    18: (100, 1, ONE, 64, "weighted"),
    19: (100, 1, ONE, 128, "mean"),
    20: (100, 1, ONE, 128, "weighted"),
    21: (100, 3, THREE, 64, "mean"),
    22: (100, 3, THREE, 64, "weighted"),
    23: (100, 3, THREE, 128, "mean"),
    24: (100, 3, THREE, 128, "weighted"),
}


def config_refused(call, *parts: str) -> None:
    refused(call, *parts, error=sp.ConfigError)


def test_settings_are_the_24_of_the_paper():
    assert list(settings()) == list(TABLE)


@pytest.mark.parametrize("number", TABLE)
def test_each_setting_is_a_row_of_the_table(number):
    segment, epochs, rates, batch, loss = TABLE[number]
    config = settings()[number]
    assert (config.segment, config.epochs, config.batch, config.loss.value) == (segment, epochs, batch, loss)
    assert (config.length, config.batches, config.validate_every) == (100, 500, 20)
    assert config.total_batches == 500 * epochs
    found = [config.rate(500 * epoch + batch) for epoch in range(epochs) for batch in (0, 499)]
    assert found == pytest.approx([rate for rate in rates for _ in range(2)], rel=1e-12)
    recipe = preset(f"lasso-{number}")
    assert recipe.training == config  # and so clip = 1: the optimizer is GO-Math-L2O
    assert recipe.family == LassoFamily(m=250, n=500, nonzeros=50, lam=0.1)


def test_defaults_are_setting_7():
    assert TrainingConfig() == settings()[7]
    assert preset("lasso-7").training.initial_state == "paper"
    assert (TrainingConfig().dtype, TrainingConfig().seed) == ("float32", 0)


def test_preset_names_are_all_presets():
    streams = ["sure-lasso", "sure-logistic", "sure-general", "sure-tiny"]
    more = ["lasso-any-start", "lasso-released", "logistic-released"]
    assert preset_names() == [f"lasso-{i}" for i in range(1, 25)] + ["logistic", "tiny", *more, *streams]
    for name in preset_names():
        assert preset(name).optimizer == ("sure" if name in streams else "go-math-l2o")


@pytest.mark.parametrize("name", ["lasso-7", "logistic", "tiny"])
@pytest.mark.parametrize("kind", ["go-math-l2o", "l2o-pa", "l2o-dm", "rnnprop"])
def test_only_the_gradient_of_go_math_is_clipped(name, kind):
    assert preset(name, kind).training.clip == (1.0 if kind == "go-math-l2o" else 0.0)


@pytest.mark.parametrize("kind", ["go-math-l2o", "l2o-pa", "l2o-dm", "rnnprop"])
def test_logistic_preset_has_rate_and_activations_of_the_paper(kind):
    recipe = preset("logistic", kind)
    assert recipe.family == LogisticFamily(m=1000, n=50, nonzeros=20, lam=0.1, curvature=1.0)
    assert recipe.training == replace(settings()[7], learning_rate=0.003, clip=recipe.training.clip)
    assert recipe.arguments.get("activation") == ("softplus" if kind in ("go-math-l2o", "l2o-pa") else None)
    assert recipe.build().kind == kind


def test_arguments_of_a_preset_win():
    chosen = {"activation": "sigmoid", "initial_state": "zeros"}
    assert preset("logistic", **chosen).arguments == chosen
    assert preset("lasso-7", gradient_map="std").build().arguments["gradient_map"] == "std"


@pytest.mark.parametrize("kind", ["go-math-l2o", "l2o-pa", "l2o-dm", "rnnprop"])
def test_the_memory_of_a_preset_is_random_in_use_as_in_training(kind):
    recipe = preset("lasso-7", kind)
    assert recipe.arguments == {"initial_state": "random"}
    assert recipe.training.initial_state == "paper"


def test_sure_has_presets_of_its_own():
    recipe = preset("sure-lasso", coordinate=0, conjugate=True)
    assert isinstance(recipe.training, StreamConfig)
    assert recipe.build().arguments == {"coordinate": 0, "instance": 32, "conjugate": True, "features": "l1"}
    config_refused(lambda: preset("lasso-7", "sure"), "'lasso-7' is not for sure", "sure-lasso")
    config_refused(lambda: preset("sure-lasso", "l2o-pa"), "'sure-lasso' is not for l2o-pa")


def test_the_rate_of_a_stream_warms_up_and_follows_a_cosine():
    config = StreamConfig(batches=1000, warm_up=10, learning_rate=0.004)
    rates = [config.rate(batch) for batch in range(1000)]
    assert rates[0] == pytest.approx(0.0004)
    assert max(rates) == pytest.approx(0.004, rel=1e-3)
    assert rates.index(max(rates)) == 9
    assert rates[500] == pytest.approx(0.004 * (0.995 / 2 + 0.005))
    assert 0 < rates[-1] < 1e-4
    config_refused(lambda: StreamConfig(flow=0.0), "flow is 0.0", "> 0")
    config_refused(lambda: StreamConfig(horizon=0), "horizon is 0", "at least 1")
    config_refused(lambda: StreamConfig(segment=1), "segment is 1", "at least 2")
    config_refused(lambda: StreamConfig(detached=1), "detached is 1", "true or false")


def test_ada_lista_presets_fit_their_family():
    for name in ("lasso-7", "tiny"):
        recipe = preset(name, "ada-lista", layers=4)
        assert recipe.arguments == {"m": recipe.family.m, "layers": 4}
        assert isinstance(recipe.training, LayerwiseConfig)
        assert recipe.training.layers == 4
    assert preset("lasso-7", "ada-lista").training == LayerwiseConfig(layers=10)


@pytest.mark.parametrize("length", [1, 2, 7, 100])
def test_loss_weights(length):
    mean, weighted = Loss.MEAN.weights(length), Loss.WEIGHTED.weights(length)
    assert mean == [1 / length] * length
    total = sum(range(1, length + 1))
    assert weighted == [i / total for i in range(1, length + 1)]
    assert sum(mean) == pytest.approx(1, abs=1e-12)
    assert sum(weighted) == pytest.approx(1, abs=1e-12)


def test_layerwise_position_walks_layers_stages_and_steps():
    config = LayerwiseConfig(layers=2, steps=3, learning_rate=0.5, decay=0.2)
    walked = [config.position(batch) for batch in range(config.total_batches)]
    assert walked == [(layer, stage, step) for layer in range(2) for stage in range(3) for step in range(3)]
    assert config.position(config.total_batches)[0] == 1  # after the last batch: still the last layer
    rates = [config.rate(batch) for batch in range(18)]
    assert rates == pytest.approx([0.5] * 3 + [0.1] * 3 + [0.02] * 3 + [0.5] * 3 + [0.1] * 3 + [0.02] * 3)


# ---------------------------------------------------------------------------------------------------- values refused


@pytest.mark.parametrize("name", ["segment", "length", "batch", "batches", "epochs", "validate_every", "validation"])
@pytest.mark.parametrize("value", [0, -3])
def test_lengths_below_one_are_refused(name, value):
    config_refused(lambda: TrainingConfig(**{name: value}), f"{name} is {value}", "at least 1")


@pytest.mark.parametrize("name", ["layers", "steps", "batch", "pool", "validate_every", "validation"])
@pytest.mark.parametrize("value", [0, -3])
def test_layerwise_lengths_below_one_are_refused(name, value):
    config_refused(lambda: LayerwiseConfig(**{name: value}), f"{name} is {value}", "at least 1")


@pytest.mark.parametrize("config", [TrainingConfig, LayerwiseConfig])
@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({"checkpoint_every": 0}, ("checkpoint_every is 0",)),
        ({"max_failures": -1}, ("max_failures is -1", "at least 0")),
        ({"seed": -1}, ("seed is -1",)),
        ({"learning_rate": 0.0}, ("learning_rate is 0.0", "> 0")),
        ({"learning_rate": float("nan")}, ("learning_rate is nan",)),
        ({"learning_rate": float("inf")}, ("learning_rate is inf",)),
        ({"decay": 0.0}, ("decay is 0.0",)),
        ({"decay": 1.5}, ("decay is 1.5",)),
        ({"clip": -1.0}, ("clip is -1.0", "0 means no limit")),
        ({"clip": float("nan")}, ("clip is nan",)),
        ({"dtype": "float16"}, ("dtype is 'float16'", "float32", "float64")),
        ({"batch": 2.0}, ("batch is 2.0", "type int")),
        ({"batch": True}, ("batch is True", "type int")),
        ({"batch": "128"}, ("batch is '128'", "type int")),
        ({"learning_rate": "0.01"}, ("learning_rate is '0.01'", "type float")),
        ({"dtype": 32}, ("dtype is 32", "type str")),
    ],
)
def test_impossible_values_are_refused(config, change, parts):
    config_refused(lambda: config(**change), *parts)


def test_length_must_be_a_multiple_of_the_segment():
    config_refused(lambda: TrainingConfig(segment=30), "length is 100", "multiple of segment", "30")
    assert TrainingConfig(segment=25).length == 100


def test_unknown_loss_and_memory_are_refused():
    config_refused(lambda: TrainingConfig(loss="sum"), "loss is 'sum'", "'mean'", "'weighted'")
    config_refused(lambda: TrainingConfig(initial_state="ones"), "initial_state is 'ones'", "'paper'", "'zeros'")


def test_numbers_are_kept_in_the_type_of_their_field():
    config = TrainingConfig(learning_rate=1, decay=1, loss="weighted")
    assert (type(config.learning_rate), config.loss) == (float, Loss.WEIGHTED)


def test_unknown_names_of_a_preset():
    config_refused(lambda: preset("laso-7"), "preset is 'laso-7'", "did you mean 'lasso-7'?")
    config_refused(lambda: preset("lasso-25"), "preset is 'lasso-25'", "did you mean")
    config_refused(lambda: preset("tiny", "go-math"), "optimizer is 'go-math'", "did you mean 'go-math-l2o'?")
    config_refused(lambda: preset("tiny", "sgd"), "optimizer is 'sgd'", *BUILT_IN)
    config_refused(lambda: preset("logistic", "ada-lista"), "LASSO only")
    config_refused(lambda: preset("tiny", hiden=3), "unknown arguments key 'hiden'", "did you mean 'hidden'?")
    config_refused(lambda: preset("tiny", hidden=0).build(), "hidden is 0")


# --------------------------------------------------------------------------------------------------------------- TOML


def toml(recipe: Recipe) -> str:
    """A recipe as a TOML file, every key written out."""

    def line(key: str, value: object) -> str:
        shown = str(value).lower() if isinstance(value, bool) else repr(str(value)) if isinstance(value, str) else value
        return f"{key} = {shown}"

    content = recipe.as_dict()
    parts = [f"optimizer = '{content.pop('optimizer')}'"]
    for table, values in content.items():
        parts += [f"[{table}]", *(line(key, value) for key, value in values.items())]
    return "\n".join(parts) + "\n"


@pytest.mark.parametrize(
    "recipe",
    [
        preset("lasso-24", "l2o-pa"),
        preset("logistic", gradient_map="lh", biases=True),
        replace(preset("tiny", "rnnprop"), training=small_config(loss="weighted", seed=7, dtype="float64")),
        preset("tiny", "ada-lista", layers=3),
    ],
    ids=lambda recipe: recipe.optimizer,
)
def test_toml_round_trip(tmp_path, recipe):
    path = tmp_path / "recipe.toml"
    path.write_text(toml(recipe))
    assert tomllib.loads(path.read_text())["training"] == recipe.as_dict()["training"]
    assert read_recipe(path) == recipe


def written(tmp_path, text: str):
    path = tmp_path / "recipe.toml"
    path.write_text(text)
    return path


def test_an_empty_file_is_the_default(tmp_path):
    assert read_recipe(written(tmp_path, "")) == preset("lasso-7")


def test_a_file_overrides_its_preset(tmp_path):
    text = "preset = 'tiny'\noptimizer = 'l2o-pa'\n[family]\nn = 30\n[training]\nseed = 5\nloss = 'weighted'\n"
    base = preset("tiny", "l2o-pa")
    expected = replace(
        base, family=replace(base.family, n=30), training=replace(base.training, seed=5, loss=Loss.WEIGHTED)
    )
    assert read_recipe(written(tmp_path, text)) == expected


def test_another_family_starts_from_its_own_defaults(tmp_path):
    recipe = read_recipe(written(tmp_path, "preset = 'tiny'\n[family]\nname = 'logistic'\nm = 70\n"))
    assert recipe.family == LogisticFamily(m=70)


def test_ada_lista_of_a_file_fits_the_family_of_the_file(tmp_path):
    recipe = read_recipe(written(tmp_path, "preset = 'tiny'\noptimizer = 'ada-lista'\n[family]\nm = 12\n"))
    assert recipe.arguments["m"] == recipe.family.m == 12


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("sed = 1", ("unknown config key 'sed'",)),
        ("optimiser = 'l2o-pa'", ("unknown config key 'optimiser'", "did you mean 'optimizer'?")),
        ("[training]\nepoch = 2", ("unknown training key 'epoch'", "did you mean 'epochs'?")),
        ("[training]\nzzz = 2", ("unknown training key 'zzz'", "segment, length, batch")),
        ("[family]\nnonzero = 2", ("unknown family key 'nonzero'", "did you mean 'nonzeros'?")),
        ("[family]\ncurvature = 1.0", ("unknown family key 'curvature'",)),
        ("[arguments]\nhiden = 2", ("unknown arguments key 'hiden'", "did you mean 'hidden'?")),
        ("[arguments]\nname = 'x'", ("unknown arguments key 'name'",)),
        ("[arguments]\noptimizer = 'x'", ("unknown arguments key 'optimizer'",)),
        ("preset = 'tinny'", ("preset is 'tinny'", "did you mean 'tiny'?")),
        ("preset = 7", ("preset is 7",)),
        ("optimizer = 'l2o'", ("optimizer is 'l2o'",)),
        ("optimizer = ['l2o-pa']", ("optimizer is ['l2o-pa']",)),
        ("[family]\nname = 'laso'", ("family is 'laso'", "did you mean 'lasso'?")),
        ("[family]\nname = []", ("family is []",)),
        ("[family]\nm = 'ten'", ("family key 'm' is 'ten'", "number")),
        ("[family]\nm = 2.5", ("family key 'm' is 2.5",)),
        ("[family]\nlam = true", ("family key 'lam' is True",)),
        ("[family]\nnonzeros = 900", ("impossible family", "nonzeros=900")),
        ("[family]\nm = 0", ("impossible family", "m=0")),
        ("[training]\nloss = 'sum'", ("loss is 'sum'", "'mean', 'weighted'")),
        ("[training]\ndtype = 'bfloat16'", ("dtype is 'bfloat16'",)),
        ("[training]\nepochs = '3'", ("epochs is '3'", "type int")),
        ("[training]\nlength = 90", ("length is 90", "multiple of segment")),
        ("[training]\nsegment = -20", ("segment is -20",)),
        ("training = 3", ("config key 'training' must be a table: [training]",)),
        ("family = 'lasso'", ("config key 'family' must be a table: [family]",)),
        ("[training\nseed = 1", ("recipe.toml is not TOML", "line 1")),
        ("seed = ", ("recipe.toml is not TOML",)),
    ],
)
def test_a_mistake_in_a_file_is_one_line(tmp_path, text, parts):
    config_refused(lambda: read_recipe(written(tmp_path, text)), *parts)


def test_a_file_that_cannot_be_read(tmp_path):
    config_refused(lambda: read_recipe(tmp_path / "none.toml"), "cannot read", "none.toml", "No such file")
    config_refused(lambda: read_recipe(tmp_path), "cannot read")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    config_refused(lambda: read_recipe(tmp_path / "binary.toml"), "is not TOML")


# ------------------------------------------------------------------------------------------ what `train` is called with


class Untouched:
    """A family that must not be asked for anything."""

    n = 8

    def sample(self, *args):
        raise AssertionError("sampled")

    start = sample


@pytest.mark.parametrize(
    ("kind", "config", "options", "parts"),
    [
        ("go-math-l2o", {"segment": 2}, {}, ("config is a dict", "TrainingConfig")),
        ("go-math-l2o", layerwise_config(), {}, ("go-math-l2o is trained with a TrainingConfig",)),
        ("ada-lista", small_config(), {}, ("ada-lista is trained with a LayerwiseConfig",)),
        ("ada-lista", layerwise_config(layers=3), {}, ("layers is 3", "has 2")),
        ("go-math-l2o", small_config(), {"backend": "fast"}, ("backend is 'fast'", "auto, plain, compiled, graph")),
        ("go-math-l2o", small_config(), {"device": "abacus"}, ("device 'abacus' cannot be used",)),
        ("go-math-l2o", small_config(), {"device": "cuda:99"}, ("device 'cuda:99' cannot be used",)),
    ],
)
def test_train_refuses_before_it_works(tmp_path, kind, config, options, parts):
    optimizer = network(kind)
    before = [value.clone() for value in optimizer.parameters()]
    config_refused(lambda: train(optimizer, Untouched(), config, tmp_path / "run", **options), *parts)
    assert list(tmp_path.iterdir()) == []
    assert all(map(torch.equal, before, optimizer.parameters()))


def test_train_refuses_an_optimizer_without_weights(tmp_path):
    config_refused(lambda: train(FISTA(), Untouched(), small_config(), tmp_path / "run"), "FISTA", "no weights")
    assert list(tmp_path.iterdir()) == []


def test_train_refuses_tensorboard_without_a_directory():
    config_refused(lambda: train(network(), Untouched(), small_config(), tensorboard=True), "pass out=")


@pytest.mark.parametrize("family", [LogisticFamily(m=LASSO.m, n=8, nonzeros=2), replace(LASSO, m=7)])
def test_train_refuses_problems_that_ada_lista_cannot_take(tmp_path, family):
    call = lambda: train(network("ada-lista"), family, layerwise_config(), tmp_path / "run")  # noqa: E731
    config_refused(call, "LASSO with 6 rows", "cannot be trained on", type(family).__name__)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("place", ["file", "file/below"])
def test_train_refuses_a_directory_it_cannot_write_to(tmp_path, place):
    (tmp_path / "file").write_text("kept")
    config_refused(lambda: train(network(), Untouched(), small_config(), tmp_path / place), "cannot write to", place)
    assert (tmp_path / "file").read_text() == "kept"


def test_train_refuses_a_read_only_directory(tmp_path, monkeypatch):
    def refuse(*args):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("os.open", refuse)  # root may write anywhere
    config_refused(lambda: train(network(), Untouched(), small_config(), tmp_path), "Permission denied", "choose")
    assert list(tmp_path.iterdir()) == []


def test_a_recipe_is_plain_data():
    recipe = preset("lasso-8")
    assert recipe.as_dict() == {
        "optimizer": "go-math-l2o",
        "arguments": {"initial_state": "random"},
        "family": {"name": "lasso"} | asdict(LassoFamily()),
        "training": asdict(settings()[8]) | {"loss": "weighted"},
    }
    assert type(recipe.as_dict()["training"]["loss"]) is str
