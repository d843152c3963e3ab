"""Problems from files: `.npz`, `.npy` pairs, `.mat` and CSV. Nothing in a file is executed.

What a file declares is compared with the bytes it has before memory is taken for it, and whatever is wrong with it is
an `InputError` of one line.
"""

from sureprox.problem_files.read import Kind, Loaded, from_arrays, read_problem

__all__ = ["Kind", "Loaded", "from_arrays", "read_problem"]
