"""What the two processes of test_team.py do under torchrun: every case of `CASES`, then stop, then be killed."""

import json
import os
import signal
import sys
from pathlib import Path

import torch

from sureprox.base.errors import SureproxError
from sureprox.optimizers import Sure
from sureprox.sources import LassoMixture
from sureprox.training import StreamConfig, train
from sureprox.training.run import TrainingRun
from sureprox.training.unrolled import UnrolledRun
from training_cases import LASSO, LOGISTIC, Poisoned, layerwise_config, network, small_config

TWENTY = {"batches": 10, "epochs": 2, "decay": 0.5}
STREAM = StreamConfig(
    segment=4, batch=5, batches=20, pool=12, horizon=12, warm_up=3, length=6,
    validate_every=4, validation=7, checkpoint_every=3,
)  # fmt: skip


def sure(seed=0):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Sure(coordinate=3, instance=4)


CASES = {  # batches that do not divide evenly, twenty of them
    "go-math-l2o": (network, LASSO, small_config(**TWENTY, batch=5, validation=7)),
    "logistic": (
        lambda seed=0: network("l2o-pa", seed, activation="softplus"), LOGISTIC,
        small_config(**TWENTY, clip=0.0, learning_rate=0.003),
    ),
    "rnnprop": (lambda seed=0: network("rnnprop", seed), LASSO, small_config(**TWENTY, initial_state="random")),
    "double": (network, LASSO, small_config(**TWENTY, batch=5, dtype="float64")),
    "layerwise": (lambda seed=0: network("ada-lista", seed), LASSO, layerwise_config(batch=5)),
    "streamed": (sure, LassoMixture(m=12, n=16), STREAM),
    "poisoned": (network, Poisoned(4, 9), small_config()),  # row 0 of two batches: only the first process sees it
    "diverging": (
        lambda seed=0: network("l2o-dm", seed, step_size=3e3), LASSO,
        small_config(dtype="float64", learning_rate=0.1),
    ),
}  # fmt: skip


def run(name: str, out: Path, rank: int, **options) -> dict:
    """The first weights differ from process to process, which must not matter."""
    make, family, config = CASES[name]
    optimizer = make(seed=rank)
    result = train(optimizer, family, config, out / name, device="cpu", backend="plain", **options)
    weights = {key: value.detach().tolist() for key, value in optimizer.named_parameters()}
    return {"completed": result.completed, "batches": result.batches, "failures": result.failures, "weights": weights}


def stopped(out: Path, rank: int) -> dict:
    """The second process alone is asked to stop, after five batches; then all go on, and are asked no more."""
    learn = TrainingRun._batch

    def batch(self):
        if rank == 1 and self.progress.batch == 5:
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGTERM)  # as torchrun does when the terminal has sent one
        learn(self)

    TrainingRun._batch = batch
    first = run("streamed", out / "stopped", rank)
    checkpoint = torch.load(out / "stopped" / "streamed" / "checkpoint.pt", weights_only=True)
    TrainingRun._batch = learn
    second = run("streamed", out / "stopped", rank)
    return {"first": first, "checkpoint": checkpoint["progress"]["batch"], "second": second}


def refused(rank: int) -> list[str]:
    """Errors that every process must raise, since the others would wait for it for ever."""
    configs = [small_config(batch=1), small_config(validation=1), small_config(seed=rank)]
    messages = []
    for config in configs:
        try:
            train(network(), LASSO, config, device="cpu")
        except SureproxError as error:
            messages.append(str(error))
    return messages


def killed(out: Path, rank: int) -> dict:
    """The second process is killed in the middle of batch 8, once; torchrun starts both anew."""
    draw = UnrolledRun._draw

    def dying(self, batch):
        if rank == 1 and self.progress.batch == 7 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
            os.kill(os.getpid(), signal.SIGKILL)
        return draw(self, batch)

    UnrolledRun._draw = dying
    return run("go-math-l2o", out / "killed", rank)


def everything(out: Path, rank: int) -> dict:
    told = []
    return {name: run(name, out, rank, listeners=[told.append]) for name in CASES} | {"told": len(told)}


def main(out: Path) -> None:
    rank = int(os.environ["RANK"])
    torch.set_num_threads(1)
    if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        found = everything(out, rank) | {"stopped": stopped(out, rank), "refused": refused(rank)}
        (out / f"found{rank}.json").write_text(json.dumps(found))
    (out / f"killed{rank}.json").write_text(json.dumps(killed(out, rank)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
