"""Running a verb as a person would, in this process."""

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
def paddock(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Paddock:
    """``paddock("check", "-f", "x.yaml")`` returns the exit code and what was said."""

    def run(*arguments: str, stdin: str = "", terminal: bool = False) -> Said:
        monkeypatch.setattr(sys, "argv", ["paddock", *arguments])
        monkeypatch.setattr(sys, "stdin", _Stdin(stdin, terminal))
        capsys.readouterr()
        out, err = sys.stdout, sys.stderr
        code = 0
        try:
            cli.main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0
        finally:
            sys.stdout, sys.stderr = out, err  # main put masks on them
        said = capsys.readouterr()
        return Said(code, said.out, said.err)

    return run
