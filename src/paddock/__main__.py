"""Run the command line with ``python -m paddock``."""

from paddock.cli import main

main()
