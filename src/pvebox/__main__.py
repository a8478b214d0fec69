"""Entry point of `python -m pvebox`."""

from __future__ import annotations

from pvebox.console.command import run

run()
