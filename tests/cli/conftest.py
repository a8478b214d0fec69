"""Run a verb in this process, and capture the output of the verb and of its child processes."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typer.main

from commandline import command_line
from paddock import cli
from paddock.core import open as opening
from paddock.places.open import place_for
from places.node import Node, play_ssh


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
    monkeypatch.setattr(typer.main, "get_command", command_line)

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


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    """A simulated node, which the verbs reach as the place of the file in the current folder."""
    node = Node(tmp_path)
    make_reachable(node, monkeypatch, tmp_path)
    return node


def make_reachable(node: Node, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Let the verbs reach a simulated node as the place of the file in a folder, which becomes the current one."""
    play_ssh(monkeypatch, node)

    def connected(*arguments: Any, **options: Any) -> Any:
        place: Any = place_for(*arguments, **options)
        place._client._http._transport = node
        return place

    monkeypatch.setattr(opening, "place_for", connected)
    monkeypatch.setattr(opening, "OnMachine", lambda: node.side)
    for name in ("XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(folder / name))
    monkeypatch.chdir(folder)


def write_file(node: Node, project: str, *agents: str) -> None:
    """Write a file of that project into the current folder."""
    node.agent(project=project)
    file = Path("paddock.yaml")
    said = json.loads(file.read_text())
    file.write_text(json.dumps({**said, "agents": dict.fromkeys(agents or ("bee",), said["agents"]["bee"])}))
