"""What `solve_many` returns: results that are read, or made, a shard at a time."""

import math
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from sureprox.base.errors import ConvergenceWarning, InputError
from sureprox.many.shards import Shards
from sureprox.many.solved import Solved, joined
from sureprox.many.work import Done, found


class Tally:
    """Counts over all results so far."""

    def __init__(self) -> None:
        self.shards = 0
        self.counts: Counter[str] = Counter()  # problems by how they ended
        self.worst_relative_gap = 0.0  # infinite where no gap is known
        self._announced = False

    @property
    def problems(self) -> int:
        return self.counts.total()

    def __len__(self) -> int:
        return self.problems

    @property
    def all_converged(self) -> bool:
        return set(self.counts) <= {"converged"}

    def add(self, done: Done) -> None:
        self.shards += 1
        self.counts.update(done.counts)
        self.worst_relative_gap = max(self.worst_relative_gap, done.worst)

    def announce(self) -> None:
        """One warning, at the caller of the caller, where problems have not converged."""
        if self.all_converged or self._announced:
            return
        self._announced = True
        failed, worst = self.problems - self.counts["converged"], self.worst_relative_gap
        gap = f" (worst relative gap {worst:.1e})" if math.isfinite(worst) else ""
        text = f"{failed:,} of {self.problems:,} problems did not converge{gap}"
        advice = "raise max_iter or tol, or rescale the data; .counts says how they ended"
        warnings.warn(f"{text}; {advice}", ConvergenceWarning, stacklevel=3)

    def __repr__(self) -> str:
        ended = ", ".join(f"{count:,} {name}" for name, count in self.counts.items())
        return f"{type(self).__name__}({self.problems:,} problems in {self.shards:,} shards: {ended or 'none yet'})"


class Results(Tally):
    """Results in a directory. Iterating reads one shard after the other: `Solved`, in the order of the source."""

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self.directory = directory

    @classmethod
    def open(cls, directory: str | Path) -> Self:
        """The results of an earlier run that came to its end."""
        shards = Shards(Path(directory))
        manifest = shards.manifest() if shards.directory.is_dir() else None
        if manifest is None:
            raise InputError(f"{directory} holds no results of solve_many; give the directory that was its out")
        present, expected = shards.done(), manifest.get("shards")
        if expected is None or present != list(range(expected)):
            raise InputError(f"{directory} is not complete ({len(present):,} shards); call solve_many again to go on")
        made = cls(shards.directory)
        for index in present:
            made.add(found(shards, index))
        return made

    def __iter__(self) -> Iterator[Solved]:
        first, shards = 0, Shards(self.directory)
        for index in range(self.shards):
            solved = shards.read(index, first)
            first += len(solved)
            yield solved


class Stream(Tally):
    """Results that are kept nowhere: iterating solves. Each is given once, in the order of the source."""

    def __init__(self, results: Iterator[Solved]) -> None:
        super().__init__()
        self._results = results

    def __iter__(self) -> Iterator[Solved]:
        return self

    def __next__(self) -> Solved:
        for solved in self._results:
            return solved
        self.announce()
        raise StopIteration

    def gathered(self) -> Solved:
        """All that are left as one, in memory."""
        parts = list(self._results)
        self.announce()
        if not parts:
            raise InputError("there are no results left to gather; a stream gives each of them once")
        return joined(parts, parts[0].index, parts[0].first)
