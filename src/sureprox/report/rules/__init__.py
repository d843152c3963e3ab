"""One rule for each sentence of the paper. Its docstring is printed below the table and says how it decides.

A rule looks at the records of one training seed and at one level, the mean relative gap at which a run counts as
converged. "Iterations" are to the first recorded one with a gap of at most that level, and "beats" means fewer of
them, or, if neither gets there, a lower final gap. FISTA with restart, which the paper does not compare with, decides
nothing.
"""
