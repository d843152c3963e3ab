"""How many problems are solved at a time.

    bytes = fixed + B each,      each = D + max(begin, run, finish)
    begin  = E' + I                                   the estimate of L
    run    = E' + P + max(W, W/2 + 3/4 (D + E))       the run in the precision of the data
    finish = E' + E + max(W64, W64/2 + 3/2 E)         taken on in float64 (float32 data in certified runs only)

for every problem of the batch:
    D      its data: s (m n + m + 1) with a matrix of its own, s (m + 1) with a shared one, s bytes per number
    E      its data in float64, in which certificates are evaluated; E' is E for float32 data, and 0 for float64 data,
           which serve both ends
    I      the work of estimating L; nothing for a shared matrix
    W      what else the solver holds at its peak: the optimizer's state before and after a step and at the last check,
           the measured values, and the work of a step; W64 in float64
    P      a polished point and the gradient there, 16 n bytes (LASSO problems only)
    3/4    finished problems are dropped by copying the data of the others once half are done (1/2), and again (1/4)

Polished points (`sureprox.support.newton`) are made between steps, in the memory that these leave free but for P.

I, W and `fixed` (the shared matrix in float64, weights) depend on the optimizer and on m and n. They are counted, not
guessed: a few instances of the very problem take a few steps while every tensor is counted.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from sureprox.base.errors import InputError
from sureprox.guarantee import Audited, Certified, CertifiedCheap
from sureprox.many.counting import TensorBytes
from sureprox.optimizers import Optimizer, load
from sureprox.problems import Problem
from sureprox.problems.forms import form_of
from sureprox.solve.solve import default_optimizer, solve
from sureprox.support.newton import can_polish

SMALL, LARGE = 64, 128  # instances of the two counts; the difference is what an instance costs
SHARE = {"cpu": 0.5, "cuda": 0.8}  # of the free memory that one process may use


@dataclass(frozen=True)
class Needed:
    """Bytes that a solve needs: `fixed`, and `each` problem."""

    fixed: int
    each: int

    def total(self, batch: int) -> int:
        return self.fixed + batch * self.each

    def fit(self, memory: int) -> int:
        """How many problems fit in that many bytes; at least one must."""
        if memory < self.total(1):
            raise InputError(
                f"one problem needs {self.total(1):,} bytes to be solved, and memory is {memory:,}; allow more memory"
            )
        return (memory - self.fixed) // self.each


def memory_needed(
    problem: Problem,
    optimizer: Optimizer[Any] | str | None = None,
    certify: bool | str = "auto",
    *,
    finish: bool | None = None,
) -> Needed:
    """The formula above. `finish`: whether instances may be taken on in float64; by default where that can happen."""
    size = problem.dtype.itemsize
    if not problem.selectable:
        raise InputError(f"{type(problem.f).__name__} or {type(problem.r).__name__} cannot be cut; name `batched`")
    chosen = _chosen(optimizer, problem)
    if certify in ("auto", "audit"):  # an audited solve holds no more than three tracks do
        certify = True
    few = problem.select(torch.zeros(LARGE, dtype=torch.int64, device=problem.device))
    data = _each_bytes(few)
    double = data * 8 // size
    rule = double if size < 8 else 0
    fixed, work = _counted(few, lambda part: _run(part, chosen, certify))
    estimate = _counted(few, lambda part: part.step_size())
    begin = rule + estimate[1]
    run = rule + _cut(max(work - rule, 0), data + double)  # the data of the rule were counted too
    run += 2 * 8 * problem.n if can_polish(form_of(problem)) else 0
    if finish is None:
        finish = size < 8 and (certify is not False or isinstance(chosen, Audited | Certified | CertifiedCheap))
    if not finish:
        return Needed(max(fixed, estimate[0]), data + max(begin, run))
    fixed64, work64 = _counted(few.to(dtype=torch.float64), lambda part: _run(part, chosen, certify))
    last = rule + double + _cut(work64, 2 * double)
    return Needed(max(fixed, estimate[0], 2 * fixed64), data + max(begin, run, last))


def _cut(work: int, data: int) -> int:
    """The larger of: all at work; half at work, while the data of half and of a quarter are held beside the whole."""
    return max(work, work // 2 + 3 * data // 4)


def chunk_size(
    problem: Problem,
    optimizer: Optimizer[Any] | str | None = None,
    device: torch.device | str | None = None,
    memory: int | None = None,
    *,
    certify: bool | str = "auto",
) -> int:
    """How many problems like these fit in `memory` bytes at a time; by default in half of the free memory of a CPU.

    On a GPU: four fifths of what is free there.
    """
    where = torch.device(device) if device is not None else problem.device
    needed = memory_needed(problem.to(device=where), optimizer, certify)
    return needed.fit(free_memory(where) if memory is None else memory)


def free_memory(device: torch.device) -> int:
    """Bytes that one process may plan with."""
    if device.type == "cuda":
        return int(SHARE["cuda"] * torch.cuda.mem_get_info(device)[0])
    free = _line("/proc/meminfo", "MemAvailable:") * 1024 or 2**32
    limit, used = _line("/sys/fs/cgroup/memory.max"), _line("/sys/fs/cgroup/memory.current")
    return int(SHARE["cpu"] * (min(free, max(limit - used, 0)) if limit else free))


def _line(path: str, name: str = "") -> int:
    """The number in the line of a system file that begins with `name`; 0 if there is none."""
    try:
        lines = Path(path).read_text().splitlines()
    except OSError:
        return 0
    words = next((line.removeprefix(name).split() for line in lines if line.startswith(name)), [])
    return int(words[0]) if words and words[0].isdigit() else 0


def _each_bytes(problem: Problem) -> int:
    """Bytes of the data of one problem, by what fewer problems need less; what is shared by the batch is not counted.

    By its first dimension alone a shared A of as many rows as there are problems would look like their own.
    """
    fewer = problem.select(torch.arange(SMALL, device=problem.device))
    return (_bytes(problem) - _bytes(fewer)) // (problem.batch - SMALL)


def _bytes(problem: Problem) -> int:
    return sum(value.numel() * value.element_size() for value in problem.tensors())


def _counted(problem: Problem, work: Callable[[Problem], object]) -> tuple[int, int]:
    """(fixed, each): bytes of tensors that `work` makes at its peak, beside the problems themselves."""
    small = problem.select(torch.arange(SMALL, device=problem.device))
    low, high = _peak(small, work), _peak(problem, work)
    each = max(high - low, 0) // (LARGE - SMALL)
    return max(high - LARGE * each, 0), each


def _peak(problem: Problem, work: Callable[[Problem], object]) -> int:
    counted = TensorBytes()
    with counted:
        work(problem)
    return counted.peak


def _run(problem: Problem, optimizer: Optimizer[Any], certify: bool | str) -> None:
    """A few steps, L given; the state at a check is held while others are made."""
    step = torch.ones(problem.batch, dtype=problem.dtype, device=problem.device)
    options: dict[str, Any] = {"max_iter": 5, "tol": 1e-300, "certify": certify, "check_every": 2, "step_size": step}
    solve(problem, optimizer, **options, engine="plain", polish=False)


def _chosen(optimizer: Optimizer[Any] | str | None, problem: Problem) -> Optimizer[Any]:
    """Weights are loaded before anything is counted."""
    if optimizer is None:
        return default_optimizer(problem)
    return load(optimizer, device=problem.device) if isinstance(optimizer, str) else optimizer
