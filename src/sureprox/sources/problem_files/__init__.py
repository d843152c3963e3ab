"""Problems from files: `.npz`, `.npy` pairs, `.mat` and CSV; `.zarr` arrays. Nothing in a file is executed.

What a file declares is compared with the bytes it has before memory is taken for it, and whatever is wrong with it is
an `InputError` of one line.
"""

from sureprox.sources.problem_files.numpy_files import map_npy
from sureprox.sources.problem_files.read import Kind, Loaded, from_arrays, read_problem
from sureprox.sources.problem_files.zarr_files import ZarrArray

__all__ = ["Kind", "Loaded", "ZarrArray", "from_arrays", "map_npy", "read_problem"]
