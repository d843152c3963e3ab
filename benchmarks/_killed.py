"""Runs of `solve_many` that are killed and started again: their memory, and whether each problem is there once."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

import sureprox as sp
from sureprox.many import Results


def resident(root: int) -> int:
    """Bytes resident in a process and all that it has started."""
    parents: dict[int, int] = {}
    sizes: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            fields = dict(line.split(":", 1) for line in (path / "status").read_text().splitlines() if ":" in line)
            parents[int(path.name)] = int(fields["PPid"])
            sizes[int(path.name)] = 1024 * int(fields.get("VmRSS", "0").split()[0])
        except (OSError, KeyError):
            continue
    family, grown = {root}, True
    while grown:
        more = {child for child, parent in parents.items() if parent in family} - family
        family, grown = family | more, bool(more)
    return sum(sizes.get(process, 0) for process in family)


def identities(out: Path) -> dict[str, tuple[int, int]]:
    """Which file each shard is, and when it was written."""
    return {path.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in sorted(out.glob("shard-*.npz"))}


def killed(out: Path, command: list[str], shards: int, shares: Sequence[float]) -> dict[str, object]:
    """The command, killed when these shares of the shards are there, and then to its end.

    The seconds of each run, the most memory it held, that in each tenth of its seconds, and the shards that it found.
    """
    seconds, memory, grown, survivors = [], [], [], []
    before: dict[str, tuple[int, int]] = {}
    for share in (*shares, None):
        began = time.perf_counter()
        process = subprocess.Popen([sys.executable, *command])
        samples: list[tuple[float, int]] = []
        while process.poll() is None:
            samples.append((time.perf_counter() - began, resident(process.pid)))
            if share is not None and len(identities(out)) >= share * shards:
                process.send_signal(signal.SIGKILL)
                process.wait()
            time.sleep(0.5)
        if share is None and process.returncode != 0:
            sys.exit(f"the last run failed with {process.returncode}")
        if share is not None and process.returncode != -signal.SIGKILL:
            sys.exit("a run that was to be killed had ended before; take more problems")
        seconds.append(round(time.perf_counter() - began, 1))
        memory.append(max(size for _, size in samples))
        grown.append(by_tenths(samples))
        now = identities(out)
        if any(now.get(name) != file for name, file in before.items()):
            sys.exit("a shard that was written before a kill is not the same file afterwards")
        survivors.append(len(before))
        before = now
        print(f"{len(now)} of {shards} shards after {sum(seconds):.0f} s, peak {memory[-1] / 1e6:.0f} MB", flush=True)
        time.sleep(2)  # workers of a killed process end by themselves
    return {
        "times": len(shares),
        "seconds": seconds,
        "peak_resident_bytes": memory,
        "peak_of_each_tenth_of_the_seconds": grown,
        "shards_found_at_start": survivors,
    }


def by_tenths(samples: list[tuple[float, int]]) -> list[int]:
    """The largest of the samples (time, size) in each tenth of the time; tenths without a sample are left out."""
    last = samples[-1][0] or 1.0
    tenths: dict[int, int] = {}
    for at, size in samples:
        place = min(int(10 * at / last), 9)
        tenths[place] = max(tenths.get(place, 0), size)
    return [tenths[place] for place in sorted(tenths)]


def verified(out: Path, pieces: Sequence[Callable[[], sp.Problem]], tol: float) -> dict[str, object]:
    """Every result against its problem, made again."""
    results = Results.open(out)
    solved = wrong = 0
    worst_value = worst_gap = 0.0
    for part, make in zip(results, pieces, strict=True):
        again = make().to(dtype=torch.float64)
        if part.first != solved or len(part) != again.batch:
            sys.exit(f"shard {part.index} does not hold the problems that it should")
        seen = again.certificate(part.x.double())
        difference = ((seen.objective - part.objective).abs() / seen.objective.clamp(min=1e-30)).max()
        worst_value = max(worst_value, float(difference))
        relative = seen.gap / torch.maximum(seen.objective - seen.gap, tol * again.scale()[0]).clamp(min=1e-300)
        wrong += int(((relative > tol * (1 + 1e-6)) | ~part.converged).sum())
        worst_gap = max(worst_gap, float(relative.max()))
        solved += len(part)
    return {
        "problems": solved,
        "not_solved": wrong,
        "largest_relative_difference_of_F": worst_value,
        "largest_relative_gap": worst_gap,
        "status": dict(results.counts),
        "scratch_files_left": [path.name for path in out.iterdir() if path.name.endswith(".tmp")],
        "bytes_written": sum(path.stat().st_size for path in out.glob("shard-*.npz")),
    }
