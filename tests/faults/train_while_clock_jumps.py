"""Train once for each way in which a clock can jump, in DIRECTORY/WAY.

    PYTHONPATH=tests python tests/faults/train_while_clock_jumps.py DIRECTORY

Prints JSON: for each way, two readings of the clock, the seconds that the run claims and those that it took.
"""

import json
import sys
import time
from pathlib import Path

import torch
from safetensors.torch import save_file

from clocks import JUMPS, jumping
from sureprox.training import train
from training_cases import LASSO, network, small_config, weights_of


def main() -> None:
    torch.set_num_threads(1)
    told = {}
    for how in JUMPS:
        optimizer = network()
        with jumping(how):
            began = time.perf_counter()
            result = train(optimizer, LASSO, small_config(), Path(sys.argv[1]) / how, device="cpu")
            spent = time.perf_counter() - began
            told[how] = {"clock": [time.time(), time.time()], "claimed": result.seconds, "spent": spent}
        save_file(weights_of(optimizer), Path(sys.argv[1]) / how / "last.safetensors")
    print(json.dumps(told))


if __name__ == "__main__":
    main()
