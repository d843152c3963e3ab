"""`python -m sureprox` is the command line."""

from sureprox.cli import main

main()
