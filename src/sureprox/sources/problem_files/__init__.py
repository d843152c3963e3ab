"""Problems from files: `.npz`, `.npy` pairs, `.mat`, tables (CSV, TSV, Parquet); `.zarr` arrays.

Nothing in a file is executed. What a file declares is compared with the bytes it has before memory is taken for it, and
whatever is wrong with it is an `InputError` of one line.
"""

from sureprox.sources.problem_files.asked import Asked, Kind, LossName
from sureprox.sources.problem_files.groups_file import read_groups
from sureprox.sources.problem_files.numpy_files import map_npy
from sureprox.sources.problem_files.read import Loaded, from_arrays, read_problem
from sureprox.sources.problem_files.sparse_files import is_sparse_file, read_sparse
from sureprox.sources.problem_files.tables import Columns
from sureprox.sources.problem_files.zarr_files import ZarrArray

__all__ = [
    "Asked",
    "Columns",
    "Kind",
    "Loaded",
    "LossName",
    "ZarrArray",
    "from_arrays",
    "is_sparse_file",
    "map_npy",
    "read_groups",
    "read_problem",
    "read_sparse",
]
