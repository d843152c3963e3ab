"""Two processes under torchrun compute what one does, stop together, and go on after one of them was killed."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from torch.distributed import HashStore

import sureprox as sp
from helpers import refused
from sureprox.training import read_log
from sureprox.training.captured import CapturedUpdate
from sureprox.training.meeting import fresh_store
from sureprox.training.meta import MetaAdam
from sureprox.training.segment import PlainSegments
from sureprox.training.share import Share
from sureprox.training.team import Team, launched
from team_script import CASES, everything
from training_cases import LASSO, network, of_kind, timeless

SCRIPT = Path(__file__).resolve().parents[1] / "team_script.py"


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """What one process has found, and where its files are."""
    out = tmp_path_factory.mktemp("alone")
    return out, everything(out, rank=0)


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """The same of two processes of torchrun."""
    out = tmp_path_factory.mktemp("both")
    hidden = ("SUREPROX_CHECK_SHAPES", "RANK", "WORLD_SIZE")
    environment = {name: value for name, value in os.environ.items() if name not in hidden} | {"OMP_NUM_THREADS": "1"}
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--max-restarts=1"]
    command = [*torchrun, str(SCRIPT), str(out)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-4000:]
    return out, [json.loads((out / f"found{rank}.json").read_text()) for rank in range(2)]


def difference(ours: dict, theirs: dict) -> float:
    assert ours["weights"].keys() == theirs["weights"].keys()
    pairs = [(torch.tensor(ours["weights"][key]), torch.tensor(theirs["weights"][key])) for key in ours["weights"]]
    return max(float((a - b).abs().max()) for a, b in pairs)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_two_processes_arrive_where_one_does(alone, both, name):
    (reference, one), (out, (first, second)) = alone, both
    assert first[name] == second[name]
    assert first[name]["completed"]
    assert [first[name][key] for key in ("batches", "failures")] == [one[name][key] for key in ("batches", "failures")]
    assert difference(first[name], one[name]) <= (1e-12 if name == "double" else 1e-5)
    ours, theirs = read_log(out / name / "log.jsonl"), read_log(reference / name / "log.jsonl")
    assert of_kind(ours, "start")[0]["processes"] == 2
    for mine, other in zip(timeless(ours), timeless(theirs), strict=True):
        assert mine.keys() == other.keys()
        for key, value in other.items():
            assert mine[key] == (pytest.approx(value, rel=1e-3) if isinstance(value, float) else value)
    assert sp.load(out / name / "model") is not None


@pytest.mark.slow
def test_the_cases_are_about_something(alone):
    """Training moves the weights, poisoned and diverging batches do occur."""
    out, one = alone
    for name, (make, _, _) in CASES.items():
        begun = {"weights": {key: value.detach().tolist() for key, value in make().named_parameters()}}
        assert difference(one[name], begun) > 1e-2
    assert one["poisoned"]["failures"] == 2
    events = of_kind(read_log(out / "diverging" / "log.jsonl"), "batch")
    assert any(event["segments"] < 2 for event in events)


@pytest.mark.slow
def test_one_process_speaks_for_both(both):
    _, (first, second) = both
    assert first["told"] > 100
    assert second["told"] == 0


@pytest.mark.slow
def test_one_is_asked_to_stop_and_both_do_and_go_on(both):
    _, (first, second) = both
    assert first["stopped"] == second["stopped"]
    assert first["stopped"]["first"]["completed"] is False
    assert first["stopped"]["first"]["batches"] == first["stopped"]["checkpoint"] == 6
    assert first["stopped"]["second"] == first["streamed"]


@pytest.mark.slow
def test_what_cannot_be_divided_is_refused_by_both(both):
    _, (first, second) = both
    assert first["refused"] == second["refused"]
    batch, validation, recipe = first["refused"]
    assert "batch is 1; 2 processes need at least 2" in batch
    assert "validation is 1" in validation
    assert "different recipes" in recipe


@pytest.mark.slow
def test_after_a_process_was_killed_both_go_on_from_the_last_checkpoint(both):
    """It dies in batch 8, the last checkpoint is that of batch 6; the end is that of the run that nobody disturbed."""
    out, (undisturbed, _) = both
    for rank in range(2):
        assert json.loads((out / f"killed{rank}.json").read_text()) == undisturbed["go-math-l2o"]
    log = read_log(out / "killed" / "go-math-l2o" / "log.jsonl")
    assert [event["batch"] for event in of_kind(log, "start")] == [0, 6]
    assert timeless(log) == timeless(read_log(out / "go-math-l2o" / "log.jsonl"))


# ---------------------------------------------------------------------------------------------------- in one process


@pytest.mark.parametrize("total", [3, 4, 10])
def test_every_row_is_in_one_share(total):
    shares = [Share(Team(rank, 3), "batch", total) for rank in range(3)]
    rows = torch.cat([share.rows(torch.arange(total)) for share in shares])
    assert rows.tolist() == list(range(total))
    assert sum(share.weight for share in shares) == pytest.approx(1, rel=1e-15)


def test_shares_begin_as_the_whole_batch_does():
    """The memory of the network too, which is drawn for the batch as one."""
    optimizer = network(initial_state="paper")
    problem = LASSO.sample(5, torch.Generator().manual_seed(0))
    x0 = LASSO.start(5, torch.Generator().manual_seed(1))
    whole = optimizer.init(problem, x0, generator=torch.Generator().manual_seed(2))
    for rank in range(2):
        share = Share(Team(rank, 2), "batch", 5)
        mine = share.part(problem)
        state = share.begin(optimizer, problem, mine, x0, generator=torch.Generator().manual_seed(2))
        expected = whole.select(share.index(problem.device))
        for name in ("x", "h", "c", "step_size", "norms"):
            torch.testing.assert_close(getattr(state, name), getattr(expected, name), rtol=1e-6, atol=1e-7)
        assert torch.equal(mine.objective(state.x), problem.objective(x0)[share.first : share.end])


def test_what_torchrun_tells():
    assert launched({}) == (0, 1, 0)
    assert launched({"RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "1"}) == (3, 8, 1)
    refused(lambda: launched({"RANK": "x", "WORLD_SIZE": "8"}), "RANK", "torchrun", error=sp.ConfigError)


def test_who_is_started_anew_meets_the_living_only():
    """Two rounds over one store: in the second the first one's greeting and answer are still there."""
    store = HashStore()
    for number in (1, 2):
        with ThreadPoolExecutor(3) as pool:
            stores = list(pool.map(lambda rank: fresh_store(store, rank, 3), range(3)))
        for rank, mine in enumerate(stores):
            assert not mine.check(["seen"])
            assert not mine.check([f"seen{rank}"])
        stores[0].set("seen", "yes")
        assert all(mine.get("seen") == b"yes" for mine in stores)
        assert store.get(f"sureprox/{number}/seen") == b"yes"


def test_who_does_not_come_is_named():
    refused(lambda: fresh_store(HashStore(), 0, 2, 0.1), "processes 1 of 2", "torchrun", error=sp.ConfigError)
    refused(lambda: fresh_store(HashStore(), 1, 2, 0.1), "process 0", "torchrun", error=sp.ConfigError)


# --------------------------------------------------------------------------------------- graphs, where there is no GPU


class Twin(Team):
    """One of two processes whose rows are the same: what the other adds is known."""

    def __init__(self) -> None:
        super().__init__(rank=0, size=2)

    def sum_(self, values):
        self.calls += 1
        values.mul_(2)


class Recording:
    """Stands for a CUDA graph: a replay does the work again and writes to the same memory."""

    def __init__(self, work):
        self.work, self.memory = work, work()

    def replay(self):
        for mine, other in zip(tensors_in(self.memory), tensors_in(self.work()), strict=True):
            mine.copy_(other)


def tensors_in(found):
    return [found] if isinstance(found, torch.Tensor) else [t for part in found for t in tensors_in(part)]


@pytest.mark.parametrize("team", [Team(), Twin()], ids=["alone", "twin"])
def test_one_graph_or_two_compute_the_same_update(monkeypatch, team):
    def record(work):
        recording = Recording(work)
        return recording, recording.memory

    monkeypatch.setattr("sureprox.training.captured.capture", record)
    weight, seen = torch.tensor([2.0, 3.0]), []

    def compute():
        return [weight.sum(), weight.square()]

    def learn(means):
        seen.append([value.clone() for value in means])
        return torch.cat([means[0].reshape(1), means[1]]).double()

    update = CapturedUpdate(Share(team, "batch", 4), compute, learn)
    for value in (5.0, 7.0):
        weight.fill_(value)
        seen.clear()
        assert update.replay().tolist() == [2 * value, value**2, value**2]
        assert [part.tolist() for part in seen[-1]] == [2 * value, [value**2, value**2]]
        assert seen[-1][0].dtype == torch.float32
    assert team.calls == (0 if team.alone else 2)


def test_a_twin_changes_nothing():
    """Segments of one half, averaged with a twin of it, are the segments of that half alone."""
    half = LASSO.sample(2, torch.Generator().manual_seed(0), torch.float64)
    problem = half.select(torch.tensor([0, 1, 0, 1]))
    x0 = torch.zeros(4, LASSO.n, dtype=torch.float64)
    rows, weights = [], []
    for share, batch, start in ((Share(Twin(), "batch", 4), problem, x0), (None, half, x0[:2])):
        optimizer = network(initial_state="zeros").double()
        meta = MetaAdam(list(optimizer.parameters()), 1.0)
        meta.rate.fill_(0.01)
        segments = PlainSegments(optimizer, meta, [0.5, 0.5], share)
        rows.append(segments.run(segments.begin(batch, start), 3))
        weights.append(meta.weights())
    torch.testing.assert_close(rows[0], rows[1], rtol=1e-12, atol=0)
    torch.testing.assert_close(weights[0], weights[1], rtol=1e-10, atol=1e-12)
