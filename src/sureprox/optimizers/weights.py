"""Weights on disk: a safetensors file and, beside it, a JSON card that says what they are and where they come from."""

import contextlib
import hashlib
import json
import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sureprox.base.errors import WeightsError
from sureprox.base.files import parse_json, scratches, write_together
from sureprox.base.names import NAMED, PRETRAINED, pretrained_names
from sureprox.base.words import suggested
from sureprox.optimizers.ada_lista import AdaLISTA
from sureprox.optimizers.black_box import L2ODM, RNNProp
from sureprox.optimizers.go_math_l2o import GoMathL2O
from sureprox.optimizers.kinds import build
from sureprox.optimizers.l2o_pa import L2OPA
from sureprox.optimizers.learned import LearnedOptimizer

ALIASES = {"sure": "sure/general"}  # other names of pretrained optimizers
FORMAT = 1
READINGS = 20  # of a pair that does not match, while it changes
CARD_TYPES: dict[str, type] = dict.fromkeys(("family", "training", "metrics"), dict)
CARD_TYPES |= dict.fromkeys(("version", "date", "notes", "sha256"), str) | {"promises": list}
CALLED: dict[type, str] = {dict: "an object", str: "text", list: "a list"}


@dataclass(frozen=True)
class Card:
    """What a weights file is: enough to rebuild the optimizer, to train it again and to know what it can do."""

    optimizer: str  # kind, e.g. "go-math-l2o"
    arguments: dict[str, Any]  # of its constructor
    family: dict[str, Any]  # the problems it was trained on
    training: dict[str, Any]  # the training config
    seed: int | None
    version: str  # of sureprox
    date: str
    metrics: dict[str, Any] = field(default_factory=dict)
    notes: str = ""
    promises: list[dict[str, Any]] = field(default_factory=list)  # see `sureprox bench promise`
    sha256: str = ""  # of the weights file
    format: int = FORMAT


def save(optimizer: LearnedOptimizer[Any], path: str | Path, **about: Any) -> Card:
    """Write `path`.safetensors and `path`.json, both or none. `about` fills the fields of the `Card`.

    A process killed meanwhile leaves the model of before, or this one: `load` finds a whole one in either case.
    """
    from safetensors.torch import save as serialise

    from sureprox._version import __version__

    target = _stem(Path(path))
    weights = {name: value.detach().cpu().contiguous() for name, value in optimizer.named_parameters()}
    for name, value in weights.items():
        if not bool(torch.isfinite(value).all()):
            raise WeightsError(f"weight {name} is not finite; nothing was saved")
    data = serialise(weights, metadata=_identity(optimizer.kind, optimizer.arguments))
    today = datetime.now(UTC).date().isoformat()
    blank: dict[str, Any] = {"family": {}, "training": {}, "seed": None, "date": today, "version": __version__}
    made = {"optimizer": optimizer.kind, "arguments": optimizer.arguments, "sha256": hashlib.sha256(data).hexdigest()}
    card = Card(**(blank | about | made))
    text = json.dumps(asdict(card), indent=2, sort_keys=True) + "\n"  # before any file is touched: it may fail
    names = (target.with_name(target.name + suffix) for suffix in (".safetensors", ".json"))
    write_together(dict(zip(names, (data, text.encode()), strict=True)))
    return card


def load(name: str | Path, device: torch.device | str = "cpu") -> LearnedOptimizer[Any]:
    """A pretrained optimizer by name (see `pretrained`), or one saved with `save` by path, ready for inference.

    "sure" is "sure/general".
    """
    stem = locate(name)
    card, data = _pair(stem)
    if card.sha256 and hashlib.sha256(data).hexdigest() != card.sha256:
        raise WeightsError(f"{stem.name}.safetensors does not match its card (other sha256); take both from one source")
    weights = _parse(data, f"{stem.name}.safetensors")
    optimizer = build(card.optimizer, card.arguments)
    optimizer.take(weights)
    optimizer.curvature = _curvature(stem, card.family)
    identity = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")]).get("__metadata__")
    if identity is not None and identity != _identity(card.optimizer, card.arguments):
        raise WeightsError(f"{stem.name}.json does not match its weights (other arguments); take both from one source")
    return optimizer.to(device).eval()


def _curvature(stem: Path, family: Mapping[str, Any]) -> float | None:
    value = family.get("curvature")
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise WeightsError(f"{stem.name}.json has curvature {value!r}; it must be a number > 0")
    return float(value)


def _identity(kind: Any, arguments: Any) -> dict[str, str]:
    """What the weights file itself says it is, so that a card cannot be edited into another model."""
    # one entry: the order of several is not fixed in the file, and equal weights shall be equal bytes
    return {"model": json.dumps({"optimizer": kind, "arguments": arguments}, sort_keys=True)}


def read_card(name: str | Path) -> Card:
    """The card of a pretrained optimizer or of a saved one."""
    return _pair(locate(name))[0]


def chosen_by_validation(card: Card) -> bool:
    """Whether the weights are those of one run that were best in validation, on the problems of its training."""
    return {"validation_loss", "best_batch"} <= set(card.metrics)


def _pair(stem: Path) -> tuple[Card, bytes]:
    """The card and the weights at `stem`, of one and the same `save` if there is such a pair.

    `save` moves the weights to their place, then the card. If it is killed in between, the card lies complete beside
    its place, and is found there by the sha256 of the weights. A pair that is being replaced right now is read again.
    """
    path = stem.with_name(stem.name + ".json")
    for _ in range(READINGS):
        before = stamp(stem)
        data = _read(stem.with_name(stem.name + ".safetensors"))
        digest = hashlib.sha256(data).hexdigest()
        for candidate in (path, *scratches(path)):
            with contextlib.suppress(WeightsError):
                card = _card(candidate)
                if card.sha256 == digest:
                    return card, data
        if stamp(stem) == before:  # it is not being replaced
            break
    return _card(path), data


def _card(path: Path) -> Card:
    text = _read(path)
    try:
        content = parse_json(text, finite=False)  # a metric may be infinite
    except ValueError as error:
        raise WeightsError(f"{path.name} is not a card (not JSON: {error}); take it from its source again") from None
    if not isinstance(content, dict):
        raise WeightsError(f"{path.name} is not a card (a JSON {type(content).__name__}, not an object)")
    known = {f.name for f in fields(Card)}
    missing = sorted({"optimizer", "arguments", "format"} - set(content))
    unknown = sorted(set(content) - known)
    if missing or unknown:
        fault = f"lacks {', '.join(missing)}" if missing else f"has unknown {', '.join(unknown)}"
        raise WeightsError(f"{path.name} is not a card this version reads: it {fault}")
    if content["format"] != FORMAT:
        raise WeightsError(f"{path.name} has card format {content['format']!r}; this version reads {FORMAT}")
    for name, kind in CARD_TYPES.items():
        if not isinstance(content.get(name, kind()), kind):
            raise WeightsError(f"{path.name} is not a card this version reads: its {name} is not {CALLED[kind]}")
    blank: dict[str, Any] = {"family": {}, "training": {}, "seed": None, "date": "", "version": ""}
    return Card(**(blank | content))


def pretrained() -> list[str]:
    """Names of the optimizers that ship with the package, for `load`."""
    return pretrained_names(PRETRAINED)


def from_released(path: str | Path, **arguments: Any) -> LearnedOptimizer[Any]:
    """An optimizer from a checkpoint of the authors' released code (a `.pth` state dict; nothing in it is executed).

    Which optimizer it is shows in the names of its layers. What does not show is given as constructor arguments, for
    example `gradient_map="std"` or `activation="softplus"`.
    """
    source = Path(path)
    weights = _released_weights(source)
    kind = _released_kind(set(weights), source.name)
    key = "W1" if kind == AdaLISTA.kind else "lstm.weight_hh_l0"
    if key not in weights or weights[key].ndim < 2:
        raise WeightsError(f"{source.name} is not a whole {kind} checkpoint: {key} is missing or not a matrix")
    width = weights[key].shape[-1]
    if kind == AdaLISTA.kind:
        sizes = {"m": width, "layers": sum(name.startswith("step_sizes.") for name in weights)}
    else:
        sizes = {"hidden": width, "layers": sum(name.startswith("lstm.weight_hh_l") for name in weights)}
    optimizer = build(kind, sizes | arguments)
    optimizer.load_released(weights)
    return optimizer.eval()


def _released_weights(source: Path) -> dict[str, Tensor]:
    """The tensors of a `.pth` file, without the wrappers that training code puts around them."""
    if not source.is_file():
        raise WeightsError(f"there is no file {source}; pass the path of a .pth state dict")
    try:
        content = torch.load(source, map_location="cpu", weights_only=True)
    except Exception as error:  # damaged bytes make the unpickler raise almost anything
        kind = type(error).__name__
        raise WeightsError(f"{source.name} is not a plain state dict of tensors ({kind}); nothing was loaded") from None
    if isinstance(content, dict) and isinstance(content.get("state_dict"), dict):
        content = content["state_dict"]
    if not isinstance(content, dict) or not all(isinstance(v, Tensor) for v in content.values()):
        raise WeightsError(f"{source.name} holds a {type(content).__name__}, not a state dict of tensors")
    return {str(name).removeprefix("module."): value for name, value in content.items()}


def _released_kind(names: set[str], source: str) -> str:
    marks: dict[str, type[LearnedOptimizer[Any]]] = {
        "linear_r.weight": GoMathL2O,
        "linear_p.weight": L2OPA,
        "linear_in.weight": RNNProp,
        "W1": AdaLISTA,
    }
    for mark, cls in marks.items():
        if mark in names:
            return cls.kind
    if {"lstm.weight_ih_l0", "linear.weight"} <= names:
        return L2ODM.kind
    raise WeightsError(f"{source} has none of the layers of a released optimizer; its keys start {sorted(names)[:3]}")


def _stem(path: Path) -> Path:
    return path.with_suffix("") if path.suffix in (".safetensors", ".json") else path


def locate(name: str | Path) -> Path:
    """The path without suffix: a file of the user's, or a pretrained name."""
    stem = _stem(Path(name))
    if os.path.isfile(f"{stem}.safetensors"):  # not Path.is_file, which fails on names no file can have
        return stem
    known = ALIASES.get(str(name), str(name))
    if known in pretrained():
        return PRETRAINED / known
    if os.path.isfile(name):
        raise WeightsError(
            f"{name} is not a .safetensors file; a released .pth checkpoint is read by optimizers.from_released"
        )
    hint = suggested(name, [*pretrained(), *NAMED], "`sureprox models` lists those that ship")
    either = f"{hint} Or" if hint.endswith("?") else f"{hint}; or"
    raise WeightsError(f"no model {str(name)!r}; {either} pass the path of a .safetensors file")


def stamp(stem: Path) -> tuple[int, ...]:
    """Changes whenever the weights or the card at `stem` are written anew."""
    found: list[int] = []
    for suffix in (".safetensors", ".json"):
        try:
            status = os.stat(f"{stem}{suffix}")
        except OSError:
            continue  # reading it will say so
        found += (status.st_ino, status.st_mtime_ns, status.st_size)
    return tuple(found)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise WeightsError(
            f"cannot read {path}: {error.strerror}; a model is a .safetensors file and its .json card"
        ) from None


def _parse(data: bytes, name: str) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load as deserialise

    pickled = data[:2] in (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05", b"PK")
    if pickled and data[8:9] not in (b"", b"{"):  # safetensors: 8 bytes of length, which may begin so, then JSON
        raise WeightsError(f"{name} is a pickle, which could run code; only safetensors files are loaded")
    try:
        return deserialise(data)
    except (SafetensorError, ValueError, KeyError) as error:
        raise WeightsError(f"{name} is damaged or not safetensors ({error}); take it from its source again") from None
