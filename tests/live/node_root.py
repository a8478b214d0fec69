"""Root at the shell of the node, who runs the commands that Paddock prints."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from live.node import Node


def root(node: Node, *argv: str) -> subprocess.CompletedProcess[str]:
    """Run a command as root on the node."""
    door = [sys.executable, "-m", "pvebox", "root", "--state", str(node.stage.folder / "sandbox"), "--"]
    return subprocess.run([*door, *argv], capture_output=True, text=True)


def run_lines(node: Node, lines: Sequence[str]) -> None:
    """Run printed lines as root on the node, without the comments."""
    for line in lines:
        if line.startswith("#"):
            continue
        for alternative in line.removesuffix(" &&").removeprefix("{ ").removesuffix("; }").split(" || "):
            done = root(node, *shlex.split(alternative))
            if done.returncode == 0:
                break
        assert done.returncode == 0, (line, done.stderr)


def up_with_manual_steps(node: Node, *files: str, while_waiting: Callable[[int], None] = lambda pid: None) -> list[str]:
    """Run `up`, run the commands that it prints for root while it waits, and return these commands.

    Before the commands, ``while_waiting`` gets the number of the process.
    """
    command = [sys.executable, "-m", "paddock", "up", *files]
    asked: list[str] = []
    lines: list[str] = []
    environment = dict(node.stage.environment)
    with subprocess.Popen(
        command, cwd=node.stage.folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as running:
        assert running.stdout is not None
        for line in running.stdout:
            lines.append(line)
            if "waiting until this is done" in line:
                start = max(at for at, each in enumerate(lines) if "Proxmox lets root alone" in each)
                asked = [each.strip() for each in lines[start + 1 : -1]]
                while_waiting(running.pid)
                run_lines(node, asked)
    assert running.returncode == 0, "".join(lines)
    return asked


def on_node(node: Node, path: str) -> Path:
    """Return where a path of the node's filesystem is on the test machine."""
    return node.stage.folder / "sandbox/host/pve" / path.lstrip("/")
