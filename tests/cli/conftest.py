"""Run a verb in this process, and capture the output of the verb and of its child processes."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from paddock import cli


@dataclass(frozen=True)
class Said:
    code: int
    out: str
    err: str


class _Stdin(io.StringIO):
    def __init__(self, text: str, terminal: bool) -> None:
        super().__init__(text)
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


Paddock = Callable[..., Said]


@pytest.fixture
def paddock(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Paddock:
    """``paddock("check", "-f", "x.yaml")`` returns the exit code, stdout and stderr."""

    def run(*arguments: str, stdin: str = "", terminal: bool = False) -> Said:
        monkeypatch.setattr(sys, "argv", ["paddock", *arguments])
        monkeypatch.setattr(sys, "stdin", _Stdin(stdin, terminal))
        capfd.readouterr()
        out, err = sys.stdout, sys.stderr
        code = 0
        try:
            cli.main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0
        finally:
            sys.stdout, sys.stderr = out, err  # main() wraps both in masks
        said = capfd.readouterr()
        return Said(code, said.out, said.err)

    return run
