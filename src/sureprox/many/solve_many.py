"""`solve_many`: any number of problems, from anywhere, in bounded memory; what is done stays done."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sureprox.base.cluster import map_on
from sureprox.base.defaults import MAX_ITER
from sureprox.base.errors import InputError
from sureprox.base.machine import cores
from sureprox.many.facts import described, understood
from sureprox.many.memory import free_memory
from sureprox.many.parts import Part
from sureprox.many.results import Results, Stream, Tally
from sureprox.many.shards import Shards
from sureprox.many.solved import Solved
from sureprox.many.sources import Source, source_of
from sureprox.many.work import Done, Settings, Task, fitting, found, solve_part
from sureprox.optimizers import Optimizer
from sureprox.solve.options import check_calls, check_options, check_switches
from sureprox.solve.plan import check_certify, chosen_engine
from sureprox.solve.solve import require_known
from sureprox.sources.problem_files import Asked


@dataclass(frozen=True)
class ManyProgress:
    """What the progress callback sees after every shard; totals are None where the source does not know them."""

    shards: int
    problems: int
    all_shards: int | None
    all_problems: int | None
    found: int  # problems that an earlier run had solved
    seconds: float  # of this run

    @property
    def rate(self) -> float:
        """Problems per second in this run."""
        return (self.problems - self.found) / self.seconds if self.seconds > 0 else 0.0

    @property
    def seconds_left(self) -> float | None:
        """At this rate; None where the total or the rate is not known."""
        total = self.all_problems
        if total is None and self.all_shards is not None and self.shards:
            total = round(self.problems * self.all_shards / self.shards)
        return None if total is None or self.rate <= 0 else max(total - self.problems, 0) / self.rate


def solve_many(
    source: Any,
    optimizer: Optimizer[Any] | str | None = None,
    *,
    out: str | Path | None = None,
    cluster: Any = None,
    chunk: int | None = None,
    memory: int | None = None,
    max_iter: int = MAX_ITER,
    tol: float = 1e-6,
    certify: bool | str = "auto",
    check_every: int = 10,
    floor: float | None = None,
    polish: bool | None = None,
    engine: str = "auto",
    kind: str | None = None,
    lam: Any = None,
    lam_ratio: Any = None,
    dtype: torch.dtype | None = None,
    loss: str | None = None,
    l1: Any = None,
    l2: Any = None,
    nonnegative: bool = False,
    groups: Any = None,
    delta: float | None = None,
    level: float | None = None,
    smoothing: float | None = None,
    classes: int | None = None,
    device: torch.device | str | None = None,
    progress: Callable[[ManyProgress], None] = lambda seen: None,
) -> Results | Stream:
    """`solve` for more problems than fit in memory, here or on a Dask cluster.

    `source`: a `Problem`; two arrays on disk, .npy or .zarr (A (m, n) or (B, m, n), and b or y (B, m)), of which A may
    be sparse, a .npz; a directory or list of problem files; or any iterable, such as a generator, of Problems, of
    (kind, arrays), of paths, or of functions that make one of these where it is solved. `kind`, `lam`, `lam_ratio`,
    `dtype` and those from `loss` to `classes` say how files and arrays are understood (`problem_files.Asked`).

    Each item or file is a shard of the results; a Problem and arrays are cut into shards of `chunk` problems. `chunk`
    is also how many problems are solved at a time; by default what fits in `memory` bytes (`chunk_size`), and for
    shards at most 8192. `engine`: as in `solve`, but kernels are always built first, so that all shards are solved
    alike.

    `out`: a directory for the results, one file for each shard, with x, objective, gap, kkt, iterations and status of
    each problem. Called again after it was interrupted or killed, with the same source and options, it goes on: a
    shard that is there is not solved again, and is refused if it belongs to other problems or options. Returns
    `Results`, read a shard at a time. Without `out`, returns a `Stream` that solves as it is iterated.

    `cluster`: None for this process; "local" for a process on each core; the address of a Dask scheduler, or a Dask
    client or cluster (`sureprox[dask]`). Each shard is a task; those of a worker that dies are done by another, and
    written once. Workers on other machines need to see the files of the source, and `out`, under the same path.
    """
    check_options(optimizer, max_iter, tol, (), check_every, floor)
    check_certify(certify)
    check_switches(polish=polish)
    check_calls(progress=progress)
    asked = Asked(kind, lam, lam_ratio, dtype, loss, l1, l2, nonnegative, groups, delta, level, smoothing, classes)
    if not isinstance(out, str | Path | None):
        raise InputError(f"out is a {type(out).__name__}; pass the path of a directory, or None")
    for name, value in (("chunk", chunk), ("memory", memory)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1):
            raise InputError(f"{name} is {value!r}; it must be a whole number >= 1")
    if isinstance(optimizer, str):
        require_known(optimizer)  # a name that is not known is refused before anything is written
    options = {"max_iter": max_iter, "tol": tol, "certify": certify, "check_every": check_every, "floor": floor}
    options |= {"polish": polish} | ({} if engine == "auto" else {"engine": engine})
    chosen_engine(engine)
    where = None if device is None else str(device)
    shards = None if out is None else Shards(Path(out))
    if memory is None and cluster == "local":
        memory = free_memory(torch.device("cpu")) // cores()
    threads = None if cluster is None else 1  # a worker has others beside it
    written = None if shards is None else shards.directory
    settings = Settings(optimizer, options, where, chunk, memory, threads, written)
    known = shards.manifest() if shards is not None and shards.directory.is_dir() else None
    cut: list[int] = [] if known is None or "cut" not in known else [known["cut"]]

    def fit(part: Part) -> int:
        """The cut of an earlier run stays, whatever memory is free now."""
        if not cut:
            problem, _ = part.load()
            cut.append(fitting(problem, settings, torch.device(where or problem.device)))
        return cut[0]

    pieces = source_of(source, asked, fit)
    if shards is None:
        return _stream(pieces, settings, cluster, progress)
    facts = {"optimizer": described(optimizer), **options, "chunk": chunk, **understood(asked)}
    with shards.locked():
        manifest = shards.begin(facts)
        if cut:
            manifest = shards.note(manifest, cut=cut[0])
        results = Results(shards.directory)
        report = _reporter(results, pieces, progress)
        for done in map_on(cluster, solve_part, _left(pieces, shards, settings, report)):
            report(done, False)
        present, expected = shards.done(), results.shards
        if not expected:
            raise InputError("the source gave no problems; a generator that was used up has to be made again")
        if present != list(range(expected)):
            raise InputError(f"{out} holds {len(present):,} shards, the source has {expected:,}; use another directory")
        shards.note(manifest, shards=expected, problems=results.problems)
    return results


def _left(pieces: Source, shards: Shards, settings: Settings, report: Callable[[Done, bool], None]) -> Iterator[Task]:
    """The tasks that are not done; those that are get reported."""
    done = set(shards.done())
    for index, part in enumerate(pieces.parts()):
        if index not in done:
            yield Task(index, part, settings)
            continue
        if shards.label(index) != part.label:
            raise InputError(
                f"shard {index} in {shards.directory} is of other problems ({shards.label(index)[:80]}), not of "
                f"{part.label[:80]}; give the same source, or another directory"
            )
        report(found(shards, index), True)


def _reporter(tally: Tally, pieces: Source, progress: Callable[[ManyProgress], None]) -> Callable[[Done, bool], None]:
    began, before = time.perf_counter(), 0

    def report(done: Done, earlier: bool) -> None:
        nonlocal before
        tally.add(done)
        before += done.size if earlier else 0
        seconds = time.perf_counter() - began
        progress(ManyProgress(tally.shards, tally.problems, pieces.shards, pieces.problems, before, seconds))

    return report


def _stream(pieces: Source, settings: Settings, cluster: Any, progress: Callable[[ManyProgress], None]) -> Stream:
    tasks = (Task(index, part, settings) for index, part in enumerate(pieces.parts()))

    def results() -> Iterator[Solved]:
        report = _reporter(stream, pieces, progress)
        for done in map_on(cluster, solve_part, tasks):
            assert done.solved is not None
            first = stream.problems
            report(done, False)
            yield replace(done.solved, first=first)

    stream = Stream(results())
    return stream
