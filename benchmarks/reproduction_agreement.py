"""Curves of the full reproduction, computed a second time: does every recorded number come back?

    python benchmarks/reproduction_agreement.py --work out/reproduction/full/work fig7 fig8 fig16

`--work` is what `sureprox reproduce` left there; optimal values and step sizes are taken from it, curves are not. Needs
the kind of device that the run had.
"""

import argparse
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from sureprox.evaluation import FIGURES, FULL
from sureprox.evaluation.contestants import UnavailableError
from sureprox.evaluation.reproduction import Reproduction

from _record import write_record


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figures", nargs="+", choices=sorted(FIGURES), metavar="FIGURE")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    device = torch.device(options.device)
    first = Reproduction(FULL, options.work, device)
    lines = {(line.optimizer, line.scenario): line for name in options.figures for line in FIGURES[name].lines}
    same, different = [], []
    with TemporaryDirectory() as folder:
        for part in ("optima", "tuning"):
            shutil.copytree(options.work / part, Path(folder) / part)
        second = Reproduction(FULL, Path(folder), device)
        for line in lines.values():
            try:
                if not first.curve_file(line).exists():
                    continue
                old, new = first.curve(line)[0], second.curve(line)[0]
            except UnavailableError:
                continue
            equal = all(getattr(old, name) == getattr(new, name) for name in ("mean", "median", "q10", "q90"))
            (same if equal else different).append(f"{line.optimizer}, {line.scenario.name}")
            print("same" if equal else "different", line.optimizer, line.scenario.name, flush=True)
    command = f"python benchmarks/reproduction_agreement.py --work WORK {' '.join(options.figures)}"
    numbers = {"command": command, "figures": options.figures, "same": len(same), "different": different}
    print(write_record("reproduction_agreement", numbers))


if __name__ == "__main__":
    main()
