"""Nothing is lost and nothing is done twice when processes are killed."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
import torch
from cases import RESTARTED, problems, slow_source

import sureprox as sp
from sureprox.base.connection import event_loop
from sureprox.many import Results, map_on

HERE = Path(__file__).parent
SHARDS, COUNT = 12, 5
OPTIONS = {"tol": 1e-6, "certify": False}
RUN = f"""
import sys
from pathlib import Path
import torch
import sureprox as sp
from cases import RESTARTED, slow_source
torch.set_num_threads(1)
source = slow_source({SHARDS}, {COUNT}, Path(sys.argv[2]), float(sys.argv[3]))
sp.solve_many(source, RESTARTED, out=sys.argv[1], tol=1e-6, certify=False)
"""


@pytest.fixture
def environment(monkeypatch):
    """Processes that are started find the cases, and do not check shapes."""
    monkeypatch.delenv("SUREPROX_CHECK_SHAPES", raising=False)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(HERE), *sys.path]))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


def wait_for(condition, process=None, seconds=120):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it took too long"
        assert process is None or process.poll() is None, "the process ended by itself"
        time.sleep(0.01)


def shards(out):
    return {path.name: path.stat().st_ino for path in out.glob("shard-*.npz")}


def check_all(out):
    """Each problem has one result, and it is its own."""
    results = Results.open(out)
    assert (results.problems, results.shards) == (SHARDS * COUNT, SHARDS)
    for seed, part in enumerate(results):
        problem = problems(seed, COUNT)
        assert part.first == seed * COUNT
        torch.testing.assert_close(part.objective, problem.objective(part.x), rtol=1e-12, atol=0)
        assert (problem.duality_gap(part.x) <= 1e-6 * part.objective).all()
    assert sorted(path.name for path in out.iterdir()) == sorted([*shards(out), ".lock", "manifest.json"])


@pytest.mark.usefixtures("environment")
def test_killed_twice_and_called_again(tmp_path):
    out, log = tmp_path / "out", tmp_path / "log"
    before = {}
    for enough in (3, 7):
        (tmp_path / "held").write_text(str(enough + 2))  # however late it is killed, it has not come to its end
        process = subprocess.Popen([sys.executable, "-c", RUN, str(out), str(log), "0.05"])
        wait_for(lambda enough=enough: len(shards(out)) >= enough, process)
        process.send_signal(signal.SIGKILL)
        process.wait(60)
        now = shards(out)
        assert before.items() <= now.items()  # the same files: not written again
        assert len(now) < SHARDS
        with pytest.raises(sp.InputError, match="is not complete"):
            Results.open(out)
        before = now
    (tmp_path / "held").unlink()
    results = sp.solve_many(slow_source(SHARDS, COUNT, log, 0.05), RESTARTED, out=out, **OPTIONS)
    assert before.items() <= shards(out).items()
    assert results.problems == SHARDS * COUNT
    check_all(out)
    made = Counter(log.read_text().split())
    assert len(made) == SHARDS
    assert made.total() <= SHARDS + 2  # only what was under way at a kill was begun twice


@pytest.fixture
def cluster(environment):
    """Two workers, each a process."""
    distributed = pytest.importorskip("distributed")
    options = {"threads_per_worker": 1, "dashboard_address": "127.0.0.1:0", "silence_logs": 50}
    with (
        event_loop() as loop,
        distributed.LocalCluster(n_workers=2, **options, loop=loop) as local,
        distributed.Client(local, timeout=120) as client,
    ):
        yield client


@pytest.mark.filterwarnings("default")
def test_a_worker_is_killed(tmp_path, cluster):
    """Dask does its tasks again; every problem is solved and written exactly once. Then work goes on as before."""
    out, log = tmp_path / "out", tmp_path / "log"
    victims = list(cluster.run(os.getpid).values())
    seen = []

    def kill_one(progress):
        if progress.shards == 3:
            os.kill(victims[0], signal.SIGKILL)
        seen.append(progress.shards)

    source = slow_source(SHARDS, COUNT, log, 0.2)
    results = sp.solve_many(source, RESTARTED, out=out, cluster=cluster, progress=kill_one, **OPTIONS)
    assert seen == list(range(1, SHARDS + 1))
    assert results.problems == SHARDS * COUNT
    check_all(out)
    assert set(log.read_text().split()) == {str(seed) for seed in range(SHARDS)}

    assert list(map_on(cluster, abs, iter(range(-5, 0)))) == [5, 4, 3, 2, 1]
    wanted = problems(0, 9)
    stream = sp.solve_many(wanted, RESTARTED, chunk=4, cluster=cluster, **OPTIONS)  # kept nowhere: comes back
    torch.testing.assert_close(stream.gathered().x, sp.solve(wanted, RESTARTED, **OPTIONS).x, rtol=1e-9, atol=1e-12)
    with pytest.raises(sp.InputError, match=r"shard 1: .*A has 288 entries that are NaN"):
        sp.solve_many([_fine, _not_a_number], RESTARTED, out=tmp_path / "bad", cluster=cluster, **OPTIONS)


def _fine():
    return problems(0, 2)


def _not_a_number():
    return "lasso", {"A": torch.full((12, 24), float("nan")), "b": torch.ones(2, 12), "lam": 0.1}


def test_without_dask_the_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(sp.InputError, match=r"pip install dask distributed cryptography"):
        list(sp.solve_many(problems(0, 2), RESTARTED, cluster="local"))
