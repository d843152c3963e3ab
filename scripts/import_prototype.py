"""Turn weights of the research prototype of Sure (an .npz file) into a model of this package.

    python scripts/import_prototype.py sure_prototype_weights.npz --out weights/sure/lasso

The prototype's `cfg` says which variant it is; its layers have other names and the same shapes.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import torch

from sureprox.base.errors import WeightsError
from sureprox.optimizers import Sure, save

LAYERS = {"lg": "lstm", "og": "out", "l1": "coordinate_lstm", "emb": "told", "lin": "inner", "out": "heads"}
KINDS = {"ctrl": {}, "only": {"coordinate": 0}}


def prototype(path: Path) -> Sure:
    """The optimizer whose weights are in `path`."""
    with np.load(path) as arrays:
        config = json.loads(str(arrays["cfg"]))
        if config["kind"] not in KINDS or config.get("base") == "none":
            raise WeightsError(f"{path.name} is a {config}; only the kinds {', '.join(KINDS)} are known here")
        found = {_name(key): torch.from_numpy(arrays[key]) for key in arrays if key != "cfg"}
    arguments = KINDS[config["kind"]] | {"conjugate": config.get("base") == "cg"}
    optimizer = Sure(**arguments)
    optimizer.take(found)
    return optimizer.eval()


def _name(key: str) -> str:
    layer, part = key.split(".")
    return f"network.{LAYERS[layer]}.{part}" + ("_l0" if LAYERS[layer].endswith("lstm") else "")


def main() -> None:
    parser = argparse.ArgumentParser(description="Turn weights of the prototype of Sure into a model.")
    parser.add_argument("file", type=Path)
    parser.add_argument("--out", type=Path, required=True, help="path of the model, without suffix")
    options = parser.parse_args()
    save(prototype(options.file), options.out, notes=f"weights of the research prototype, from {options.file.name}")


if __name__ == "__main__":
    main()
