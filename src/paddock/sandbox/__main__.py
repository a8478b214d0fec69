"""Entry point of `python -m paddock.sandbox`."""

from __future__ import annotations

import sys

from .command import main

sys.exit(main(sys.argv[1:]))
