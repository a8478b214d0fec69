"""The node of the live tests: run commands as a user would, and look at machines and journals directly."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ruamel.yaml import YAML

from paddock.base.process import run
from paddock.demo import Stage

DAILY, ROOT = "pooled@pve!daily", "root@pam!sandbox"  # tokens besides that of the file


@dataclass(frozen=True)
class Node:
    """A Proxmox-like node, a folder with a paddock.yaml for it, and the environment of commands."""

    stage: Stage

    def paddock(self, *words: str, fails: bool = False) -> subprocess.CompletedProcess[str]:
        """Run `paddock` as a user would, and assert that it succeeds, or fails if ``fails``."""
        command = [sys.executable, "-m", "paddock", *words]
        done = subprocess.run(
            command,
            cwd=self.stage.folder,
            env=dict(self.stage.environment),
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert (done.returncode != 0) is fails, done.stdout + done.stderr
        return done

    def with_environment(self, **more: str) -> Node:
        """Return the same node for commands with more environment variables."""
        return Node(replace(self.stage, environment={**self.stage.environment, **more}))

    def token(self, name: str) -> str:
        """Return a token of the sandbox with its secret."""
        cluster = json.loads((self.stage.folder / "sandbox/cluster.json").read_text())
        return f"{name}={cluster['tokens'][name]['secret']}"

    def ask(self, prompt: str) -> str:
        return self.paddock("ask", "hermes", prompt).stdout.strip()

    def status(self) -> dict[str, Any]:
        return dict(json.loads(self.paddock("status", "--json").stdout)[0])

    def shell(self, address: str, script: str) -> str:
        """Run a script as root in a container over ssh, with the key of the node's file."""
        options = ["-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR"]
        result = run(["ssh", *options, "-i", str(self.stage.folder / "id_ed25519"), f"root@{address}", script])
        assert result.ok, result.err
        return result.out

    def machine(self, script: str) -> str:
        """Run a script as root in the agent's machine."""
        return self.shell(self.status()["address"], script)

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        """Start `paddock` in the background, without its output."""
        return subprocess.Popen(
            [sys.executable, "-m", "paddock", *words],
            cwd=self.stage.folder,
            env=dict(self.stage.environment),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            process_group=0,
        )

    @property
    def models(self) -> str:
        """URL of the stand-in model."""
        return str(self.file()["agents"]["hermes"]["settings"]["providers"]["standin"]["base_url"])

    @property
    def gateway(self) -> str:
        """Address of the test machine on the network of the node."""
        return str(urlsplit(self.models).hostname)

    @property
    def journals(self) -> Path:
        return Path(self.stage.environment["XDG_STATE_HOME"]) / "paddock/runs"

    def file(self) -> dict[str, Any]:
        return dict(YAML(typ="safe").load(self.stage.folder / "paddock.yaml"))

    def write(self, name: str, tree: dict[str, Any]) -> Path:
        path = self.stage.folder / name
        YAML(typ="safe").dump(tree, path)
        return path


def wait_for(condition: Callable[[], bool], seconds: float = 30) -> None:
    """Check a condition until it holds. Pause for as long as the check takes, to leave the processor to other tests."""
    end = time.monotonic() + seconds
    while True:
        begin = time.monotonic()
        if condition():
            return
        assert time.monotonic() < end, f"the condition did not hold within {seconds} s"
        time.sleep(max(0.02, min(1.0, time.monotonic() - begin)))


def kill_at_step(node: Node, step: str, *words: str, event: str = "begin") -> None:
    """Start `paddock` and kill it with SIGKILL as soon as its journal shows that a step has begun, or is done."""
    known = set(node.journals.glob("*"))
    running = node.start(*words)

    def reached() -> bool:
        return any(_shows(path, step, event) for path in set(node.journals.glob("*")) - known)

    wait_for(lambda: reached() or running.poll() is not None, seconds=120)
    assert reached(), f"{words[0]} ended without {step}"
    kill(running, may_have_ended=event == "done")


def kill(running: subprocess.Popen[bytes], *, may_have_ended: bool = False) -> None:
    """Kill a command that was started with `Node.start`."""
    running.kill()
    ended = running.wait()
    assert ended == -9 or (may_have_ended and ended == 0), "the command ended before it could be killed"
    # Its ssh processes would end by themselves, later. The commands on the machine go on either way.
    with suppress(ProcessLookupError):
        os.killpg(running.pid, signal.SIGTERM)


def _shows(journal: Path, step: str, event: str) -> bool:
    events = [json.loads(line) for line in journal.read_text().splitlines() if line.endswith("}")]
    return any(found["event"] == event and found["id"] == step for found in events if "id" in found)
