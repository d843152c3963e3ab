"""The defaults of Python and of the command line. Standard library only: the command's help reads it too."""

MAX_ITER = 10_000  # iterations of each problem at most
ENOUGH = 1_000  # with a max_iter of at least this, methods without iterations may answer too
TOL = 1e-6  # of the certificate, relative to F
