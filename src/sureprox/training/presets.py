"""Presets: the paper's recipes, those of the authors' released code, and small ones.

The released code differs from the paper in what it trains the earlier methods with. Its facts, for LASSO:

- L2O-PA: no gradient through the features (GO-Math-L2O has one); L2O-DM and RNNprop: none through the subgradient,
  which is that of the mean over 128 problems;
- rates: 0.01, but 0.003 for RNNprop, which is validated every 5 batches and starts from a memory of size 0.01;
- 500 batches, drawn once and used in each of three epochs; 512 problems for validation;
- Ada-LISTA: see `RELEASED_LAYERS`.

For logistic problems: rate 0.003, 1,024 problems for validation every 5 batches, memory of size 1.
"""

import inspect
from dataclasses import replace
from typing import Any

from sureprox.base.errors import ConfigError, SureproxError
from sureprox.base.words import suggested
from sureprox.optimizers.kinds import class_of, known_kinds
from sureprox.sources import AnyStartLasso, LassoFamily, LogisticFamily
from sureprox.training.config import LayerwiseConfig, Loss, Recipe, TrainingConfig, check_keys
from sureprox.training.stream_config import ARGUMENTS, STREAMS

RELEASED = ("lasso-released", "logistic-released")
RELEASED_BATCH = 128
RELEASED_LAYERS = LayerwiseConfig(
    steps=25_000,  # at most: a stage ends `patience` epochs after its best
    batch=256,
    pool=125,
    learning_rate=0.002,
    last_decay=0.02,
    layer_decay=0.3,
    matrices_first=True,
    relative=False,
    patience=5,
    clip=0.0,
    validate_every=125,
    checkpoint_every=500,
)
STEP = 0.2  # of Ada-LISTA, and its threshold, before training


def settings() -> dict[int, TrainingConfig]:
    """The paper's 24 training settings for LASSO, numbered as in its table."""
    cells = [
        (segment, epochs, batch, loss)
        for segment in (20, 50, 100)
        for epochs in (1, 3)
        for batch in (64, 128)
        for loss in Loss
    ]
    return {
        number: TrainingConfig(segment=segment, epochs=epochs, batch=batch, loss=loss, decay=0.1 if epochs > 1 else 1.0)
        for number, (segment, epochs, batch, loss) in enumerate(cells, start=1)
    }


def preset_names() -> list[str]:
    return [f"lasso-{number}" for number in settings()] + ["logistic", "tiny", "lasso-any-start", *RELEASED, *STREAMS]


def preset(name: str, optimizer: str | None = None, /, **arguments: Any) -> Recipe:
    """A recipe for one optimizer: "lasso-1" ... "lasso-24" (7 is the default) and "logistic" as in the paper, "tiny".

    "lasso-released" and "logistic-released" are those of the authors' released code; "lasso-any-start" is setting 7
    from starts that are zero, near and far. Those whose name begins with "sure-" are for Sure, and no others are;
    without `optimizer` these are for GO-Math-L2O. An optimizer of one's own takes those of the paper.

    As in the paper the gradient is clipped for GO-Math-L2O only, the memory of the LSTM starts from a standard normal
    draw, and logistic problems use the learning rate 0.003 and the softplus activations.
    """
    if name not in preset_names():
        raise ConfigError(f"preset is {name!r}; {suggested(name, preset_names())}")
    if optimizer is None:
        optimizer = "sure" if name in STREAMS else "go-math-l2o"
    known = _parameters(optimizer)
    check_keys("arguments", arguments, known)
    if (name in STREAMS) != (optimizer == "sure"):
        raise ConfigError(f"preset {name!r} is not for {optimizer}; sure is trained by one of {', '.join(STREAMS)}")
    if name in STREAMS:
        return Recipe(optimizer, ARGUMENTS.get(name, {}) | arguments, *STREAMS[name])
    family, config = _problems(name)
    if optimizer == "ada-lista":
        return _layerwise(name, family, arguments)
    chosen = {"initial_state": "random"}  # what the memory is like in training
    if isinstance(family, LogisticFamily) and optimizer in ("go-math-l2o", "l2o-pa"):
        chosen["activation"] = "softplus"
    if name in RELEASED:
        more, config = _released(name, optimizer, config)
        chosen |= more
    config = replace(config, clip=1.0 if optimizer == "go-math-l2o" else 0.0)
    return Recipe(optimizer, {key: value for key, value in chosen.items() if key in known} | arguments, family, config)


def _parameters(optimizer: str) -> list[str]:
    """The names of the constructor arguments of a kind."""
    try:
        cls = class_of(optimizer)
    except SureproxError as error:
        if optimizer in known_kinds():  # there, and of no use: why
            raise ConfigError(str(error)) from None
        raise ConfigError(f"optimizer is {optimizer!r}; {suggested(optimizer, known_kinds())}") from None
    return list(inspect.signature(cls).parameters)


def _problems(name: str) -> tuple[Any, TrainingConfig]:
    """The family and the config of a preset, before they are fitted to an optimizer."""
    if name in ("logistic", "logistic-released"):
        return LogisticFamily(), TrainingConfig(learning_rate=0.003)
    if name == "tiny":
        config = TrainingConfig(
            segment=5, length=20, batch=16, batches=20, epochs=2, validate_every=5, validation=16, checkpoint_every=10
        )
        return LassoFamily(m=20, n=40, nonzeros=5), config
    if name == "lasso-any-start":
        return AnyStartLasso(), settings()[7]
    return LassoFamily(), settings()[7 if name in RELEASED else int(name.removeprefix("lasso-"))]


def _released(name: str, optimizer: str, config: TrainingConfig) -> tuple[dict[str, Any], TrainingConfig]:
    """What the released code sets otherwise: arguments, and the config."""
    lasso = name == "lasso-released"
    arguments: dict[str, Any] = {}
    if optimizer in ("l2o-pa", "l2o-dm", "rnnprop"):
        arguments["detached"] = True
    if optimizer in ("l2o-dm", "rnnprop"):
        arguments["gradient_scale"] = 1 / RELEASED_BATCH
    config = replace(config, repeat=True, validation=512 if lasso else 1024, validate_every=20 if lasso else 5)
    if lasso and optimizer == "rnnprop":
        arguments["memory_scale"] = 0.01
        config = replace(config, learning_rate=0.003, validate_every=5)
    return arguments, config


def _layerwise(name: str, family: Any, arguments: dict[str, Any]) -> Recipe:
    if isinstance(family, LogisticFamily):
        if name not in RELEASED:
            raise ConfigError("ada-lista is for LASSO only; choose a lasso preset, or logistic-released")
        arguments = {"labels": True} | arguments
    if name in RELEASED:
        config, arguments = RELEASED_LAYERS, {"step": STEP, "threshold": STEP} | arguments
    else:
        tiny = name == "tiny"
        config = LayerwiseConfig(steps=5, batch=16, pool=2, validation=16) if tiny else LayerwiseConfig()
    arguments = {"m": family.m} | arguments
    return Recipe("ada-lista", arguments, family, replace(config, layers=arguments.get("layers", config.layers)))
