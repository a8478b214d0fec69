"""Entry point of `python -m pvebox`."""

from __future__ import annotations

from .command import run

run()
