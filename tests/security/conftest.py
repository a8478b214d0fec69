"""Fixtures of the tests about leaks."""

from __future__ import annotations

from cli.conftest import paddock as paddock
