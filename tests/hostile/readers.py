"""Everything that reads files, as (good files, how to read): what the fuzzer spoils, one file at a time.

`Reader.read(path)` gets the path of a spoiled file and reads it as the product does, to the point where its content is
used. It may return or raise a `SureproxError`; nothing else.
"""

import io
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

import sureprox as sp
from report_cases import write_all
from sureprox.evaluation.battery_records import read_records
from sureprox.evaluation.datasets import _kept
from sureprox.evaluation.record_files import read_curve, read_figure, read_tuning, write_curve, write_tuning
from sureprox.evaluation.records import TuningRecord
from sureprox.optimizers import from_released, read_card
from sureprox.report.page import gather, page
from sureprox.sources.problem_files import read_problem
from sureprox.training import Recipe, TrainingConfig, read_recipe, train
from sureprox.training.config import card_family
from sureprox.training.curves import draw
from sureprox.training.unrolled import UnrolledRun
from training_cases import CPU, LASSO, network, small_config

TOML = """
optimizer = "go-math-l2o"
[arguments]
hidden = 4
layers = 1
gradient_map = "std"
[family]
name = "lasso"
m = 6
n = 8
nonzeros = 2
lam = 0.1
[training]
segment = 2
length = 4
batch = 3
learning_rate = 0.01
loss = "weighted"
seed = 3
dtype = "float32"
"""
TOML_PRESET = """preset = "sure-lasso"
[training]
batch = 4
horizon = 100
"""


@dataclass(frozen=True)
class Reader:
    name: str
    file: str  # name of the spoiled file, below the directory of the case
    seeds: list[bytes]  # good files
    read: Callable[[Path], object]
    share: int = 2  # of the cases, relative to the others


def readers(scratch: Path) -> list[Reader]:
    """All readers; `scratch` is a directory for what they need beside the spoiled file."""
    rng = np.random.default_rng(0)
    A, b = rng.standard_normal((6, 4)), rng.standard_normal(6)
    y = (b > 0).astype(float)
    np.save(scratch / "b.npy", b)
    arrays = [{"A": A, "b": b, "lam": 0.3}, {"A": A.astype("f4"), "y": y, "lam": 0.1, "x0": np.zeros(4)}]
    found = [
        Reader("npz", "p.npz", [_npz(np.savez, a) for a in arrays] + [_npz(np.savez_compressed, arrays[0])],
               lambda path: read_problem([path])),
        Reader("npy", "A.npy", [_npy(A), _npy(np.asfortranarray(A.astype("f4"))), _npy(A.astype(int))],
               lambda path: read_problem([path, scratch / "b.npy"], lam=0.3)),
        Reader("csv", "t.csv", [_csv(A, b, ","), b"a,b,c,d,e\n" + _csv(A, b, ","), _csv(A, b, "\t")],
               lambda path: read_problem([path], lam=0.3)),
        Reader("toml", "c.toml", [TOML.encode(), TOML_PRESET.encode()], _recipe),
    ]  # fmt: skip
    return found + _mat(arrays) + _models(scratch) + _records(scratch) + _training(scratch)


def _npz(save: Callable[..., None], arrays: dict[str, object]) -> bytes:
    out = io.BytesIO()
    save(out, **arrays)
    return out.getvalue()


def _npy(array: np.ndarray) -> bytes:
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def _csv(A: np.ndarray, b: np.ndarray, delimiter: str) -> bytes:
    out = io.BytesIO()
    np.savetxt(out, np.column_stack([A, b]), delimiter=delimiter)
    return out.getvalue()


def _recipe(path: Path) -> None:
    read_recipe(path).build()


def _mat(arrays: list[dict[str, object]]) -> list[Reader]:
    try:
        from scipy.io import savemat
    except ImportError:
        return []
    seeds = []
    for compressed in (False, True):
        for content in arrays:
            out = io.BytesIO()
            savemat(out, content, do_compression=compressed)
            seeds.append(out.getvalue())
    return [Reader("mat", "p.mat", seeds, lambda path: read_problem([path]))]


def _models(scratch: Path) -> list[Reader]:
    """Cards and weights: the other one of the two is whole, and no checksum stands in the way."""
    kept = scratch / "models"
    cards, weights = [], []
    for seed in (0, 1):
        sp.optimizers.save(network(seed=seed), kept / "m", family={"name": "lasso", "m": 6, "n": 8, "nonzeros": 2})
        card = json.loads((kept / "m.json").read_text()) | {"sha256": "", "seed": seed}
        cards.append(json.dumps(card, indent=seed or None).encode())
        weights.append((kept / "m.safetensors").read_bytes())
    (kept / "free.json").write_bytes(cards[0])

    def with_card(path: Path) -> None:
        shutil.copy(kept / "m.safetensors", path.with_suffix(".safetensors"))
        card_family(read_card(path).family)
        sp.load(path)

    def with_weights(path: Path) -> None:
        shutil.copy(kept / "free.json", path.with_suffix(".json"))
        sp.load(path)

    released = []
    for kind in ("go-math-l2o", "rnnprop"):
        optimizer, out = network(kind), io.BytesIO()
        names, own = optimizer.released_names(), dict(optimizer.named_parameters())
        torch.save({released: own[ours].detach() for ours, released in names.items()}, out)
        released.append(out.getvalue())
    return [
        Reader("card", "m.json", cards, with_card),
        Reader("safetensors", "m.safetensors", weights, with_weights),
        Reader("released", "m.pth", released, from_released),
    ]


def _records(scratch: Path) -> list[Reader]:
    kept = scratch / "records"
    write_all(kept)
    figure = read_figure(kept / "reproduction" / "fig1.json")
    write_curve(kept / "curve.json", figure.curves[0])
    write_tuning(kept / "tuning.json", TuningRecord("adam", "lasso", 0, 4, 10, (({"step_size": 0.1}, 0.5),)))

    def report(path: Path) -> None:
        page(gather([path.parent]))

    def log(path: Path) -> None:
        draw(path, path.with_suffix(".png"))

    def kept_optima(path: Path) -> None:
        found = _kept(path, 3)
        assert found is None or all(bool(torch.isfinite(value).all()) for value in found)

    optima = _npz(np.savez, {"best": np.arange(3.0), "gap": np.zeros(3)})

    def seeds(*names: str) -> list[bytes]:
        return [(kept / name).read_bytes() for name in names]

    return [
        Reader("curve", "curve.json", seeds("curve.json"), read_curve),
        Reader("tuning", "tuning.json", seeds("tuning.json"), read_tuning),
        Reader("optima", "optima.npz", [optima], kept_optima, share=1),
        Reader("figure", "fig1.json", seeds("reproduction/fig1.json"), read_figure, share=1),
        Reader("battery", "battery.json", seeds("battery/battery.json"), read_records, share=1),
        Reader("log", "log.jsonl", seeds("training/run.jsonl"), log, share=1),
        Reader("figure in a report", "fig1.json", seeds("reproduction/fig1.json"), report, share=1),
        Reader("battery in a report", "battery.json", seeds("battery/battery.json"), report),
        Reader("audit in a report", "audit.json", seeds("audit/audit.json"), report),
        Reader("log in a report", "run.jsonl", seeds("training/run.jsonl"), report),
    ]


def _training(scratch: Path) -> list[Reader]:
    """A run that goes on from a spoiled checkpoint, or cuts back a spoiled log."""
    config: TrainingConfig = small_config(batches=1, epochs=1)
    train(network(), LASSO, config, scratch / "run", device="cpu", backend="plain")
    whole = (scratch / "run" / "checkpoint.pt").read_bytes()
    recipe = Recipe("go-math-l2o", network().arguments, LASSO, config)

    def resume(path: Path) -> None:
        run = UnrolledRun("plain", recipe, network(), CPU, path.parent, [], False)
        run.go()

    def resume_log(path: Path) -> None:
        (path.parent / "checkpoint.pt").write_bytes(whole)
        resume(path)

    return [
        Reader("checkpoint", "checkpoint.pt", [whole], resume),
        Reader("resumed log", "log.jsonl", [(scratch / "run" / "log.jsonl").read_bytes()], resume_log, share=1),
    ]
