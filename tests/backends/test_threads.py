"""Threads that sleep when they wait, small operations on one, forked processes."""

import os
import signal
import subprocess
import sys
import threading

import pytest
import scipy.sparse
import torch

import sureprox as sp
from engines import kernels
from sureprox.base.machine import quota
from sureprox.base.operations import PLAIN
from sureprox.kernels.runtime import sharing, threads
from sureprox.optimizers import FISTA, ISTA
from sureprox.problems.forms import form_of
from sureprox.sources import LassoFamily

START = """
COUNT = {count}
import os, time, torch, sureprox as sp
from sureprox.kernels import native_status
from sureprox.problems import LassoFamily
torch.set_num_threads(2)
problem = LassoFamily(m=50, n=100).sample(COUNT, torch.Generator().manual_seed(0))
x = sp.solve(problem, max_iter=2).x
"""

ONE_CORE = """
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
sp.solve(problem)
def seconds(count):
    torch.set_num_threads(count)
    def once():
        began = time.process_time()
        sp.solve(problem)
        return time.process_time() - began
    return min(once() for _ in range(3))
print(seconds(1), seconds(2))
"""

FORK = """
torch.ones(200_000).exp()
child = os.fork()
if not child:
    torch.ones(200_000).exp()
    os._exit(0 if torch.equal(sp.solve(problem, max_iter=2).x, x) else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""

linux = pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system cannot bind a process to a core")
TIME_LIMIT = 240  # seconds, of which a few are used


def told(code: str, count: int, **env: str) -> list[str]:
    full = {**os.environ, "OMP_NUM_THREADS": "2", **env}
    full.pop("SUREPROX_CHECK_SHAPES", None)
    command = [sys.executable, "-W", "ignore", "-c", START.format(count=count) + code]
    with subprocess.Popen(command, env=full, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            said, _ = process.communicate(timeout=TIME_LIMIT)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # what it has forked too
            pytest.fail(f"not done after {TIME_LIMIT} seconds")
    assert process.returncode == 0
    return said.split()


@linux
def test_two_threads_on_one_core_take_no_more_work_than_one(kept):
    """As beside busy processes, where a thread that is waited for does not run: who waits must not spin."""
    one, two = map(float, told(ONE_CORE, 400, SUREPROX_NATIVE="1", SUREPROX_CACHE=str(kept)))
    assert two < 2 * one


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.parametrize(("native", "count"), [("0", 2), ("1", 400)])
def test_a_process_forked_after_a_solve_does_not_wait_for_threads_of_its_parent(kept, native, count):
    assert told(FORK, count, SUREPROX_NATIVE=native, SUREPROX_CACHE=str(kept)) == ["0"]


@pytest.fixture
def two_threads():
    """PyTorch has two threads, and lets them be set for one thread."""
    if threads._functions() is None:
        pytest.skip("this build of PyTorch does not let a thread choose")
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(1)


@pytest.fixture
def small(generator):
    return LassoFamily(m=20, n=50, nonzeros=5).sample(2, generator)


def test_a_small_solve_leaves_operations_to_the_calling_thread(two_threads, small):
    seen, elsewhere = [], []

    def look(_: object) -> None:
        seen.append((torch.get_num_threads(), threads.available()))
        other = threading.Thread(target=lambda: elsewhere.append(torch.get_num_threads()))
        other.start()
        other.join(60)

    sp.solve(small, FISTA(), max_iter=20, callback=look)
    assert set(seen) == {(1, 2)}
    assert set(elsewhere) == {2}
    assert torch.get_num_threads() == threads.available() == 2


def few(problem, optimizer):
    return sharing.few_threads(form_of(problem), problem.batch, PLAIN, optimizer)


def test_the_number_of_threads_is_restored_after_an_error(two_threads, small):
    with pytest.raises(KeyError), few(small, FISTA()):
        raise KeyError
    assert torch.get_num_threads() == 2


def test_a_number_of_threads_chosen_meanwhile_is_kept(two_threads, small):
    with few(small, FISTA()):
        torch.set_num_threads(3)
    assert torch.get_num_threads() == 3


def test_all_threads_come_back_for_large_operations(two_threads, small):
    with few(small, FISTA()):
        with threads.all_threads():
            assert torch.get_num_threads() == 2
        assert torch.get_num_threads() == 1


class Own(ISTA):
    """An optimizer of a user's own, whose operations may be of any size."""


@pytest.mark.parametrize("case", ["large", "own optimizer"])
def test_other_solves_keep_all_threads(two_threads, small, generator, case):
    problem = LassoFamily(m=100, n=200).sample(32, generator) if case == "large" else small
    with few(problem, Own() if case == "own optimizer" else FISTA()):
        assert torch.get_num_threads() == 2


@pytest.mark.parametrize(("density", "expected"), [(0.02, 1), (0.4, 2)])
def test_a_sparse_matrix_is_as_small_as_its_entries(two_threads, density, expected):
    A = scipy.sparse.random(1000, 500, density, random_state=0)
    seen = []
    problem = sp.lasso(A, torch.ones(1000, dtype=torch.float64), 0.1)
    sp.solve(problem, FISTA(), max_iter=20, callback=lambda _: seen.append(torch.get_num_threads()))
    assert set(seen) == {expected}
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize(("batch", "shift", "expected"), [(4, None, 1), (4, 0.1, 2), (1, None, 2)])
def test_where_kernels_compute_the_products_small_is_what_is_left(native, two_threads, batch, shift, expected):
    """One A of five million numbers is for all threads of PyTorch, not for a kernel."""
    m, n = (100, 2000) if batch > 1 else (2500, 2000)
    problem = sp.lasso(torch.ones(batch, m, n), torch.ones(batch, m), 0.1)
    problem = problem if shift is None else problem.shifted(shift)
    with sharing.few_threads(form_of(problem), batch, kernels(problem, FISTA(), True), FISTA()):
        assert torch.get_num_threads() == expected


def test_the_threads_of_kernels_are_those_of_pytorch(two_threads):
    assert threads.available() == 2
    torch.set_num_threads(1)
    assert threads.available() == 1
    torch.set_num_threads(2)
    with threads.one_thread():  # operations of PyTorch alone are held to one
        assert (threads.available(), torch.get_num_threads()) == (2, 1)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"cpu.max": "150000 100000\n"}, 2),
        ({"cpu.max": "max 100000\n"}, None),
        ({"cpu/cpu.cfs_quota_us": "50000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 1),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, None),
        ({}, None),
    ],
)
def test_a_container_has_no_more_threads_than_its_limit(two_threads, tmp_path, monkeypatch, files, expected):
    (tmp_path / "cpu").mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert quota(tmp_path) == expected
    monkeypatch.setattr(threads, "_most", lambda: quota(tmp_path) or sys.maxsize)
    assert threads.available() == min(2, expected or 2)


def test_workers_of_joblib_have_the_threads_that_joblib_gives_them(monkeypatch):
    """By OMP_NUM_THREADS, which PyTorch reads when it is imported."""
    joblib = pytest.importorskip("joblib")
    monkeypatch.delenv("SUREPROX_CHECK_SHAPES", raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    with joblib.parallel_config("loky", inner_max_num_threads=1):
        assert joblib.Parallel(n_jobs=2)(joblib.delayed(threads.available)() for _ in range(2)) == [1, 1]


def test_held_to_one_twice_kernels_still_have_the_threads_of_the_user(two_threads):
    with threads.one_thread(), threads.one_thread():
        assert torch.get_num_threads() == 1
        assert threads.available() == 2
