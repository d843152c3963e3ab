"""Problem sets of any size: solved in chunks that fit in memory, on one machine or a cluster, written once."""

from sureprox.base.cluster import map_on
from sureprox.many.memory import Needed, chunk_size, memory_needed
from sureprox.many.results import Results, Stream
from sureprox.many.solve_many import ManyProgress, solve_many
from sureprox.many.solved import Solved

__all__ = [
    "ManyProgress",
    "Needed",
    "Results",
    "Solved",
    "Stream",
    "chunk_size",
    "map_on",
    "memory_needed",
    "solve_many",
]
