"""What Python and the command line do where nothing is said. Standard library only: the command's help reads it too."""

MAX_ITER = 10_000  # iterations of each problem at most
ENOUGH = 1_000  # who allows so many iterations asks for an answer, which methods without iterations may give too
TOL = 1e-6  # of the certificate, relative to F
