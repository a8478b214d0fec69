"""The commands that a person pastes into the node's shell: they end at the first failure."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from paddock.places.proxmox.root.work import chained

LINES = ["mkdir -p {d}", "false || touch {d}/owned", "pct set 101 -mp1 /x,mp=/y", "pct reboot 101", "ls -ld {d}"]


@pytest.mark.parametrize("shell", [["sh"], ["bash"], ["bash", "--norc", "-i"]])
@pytest.mark.parametrize("fails", ["set", "reboot", "nothing"])
def test_nothing_runs_after_the_first_failure(tmp_path: Path, shell: list[str], fails: str) -> None:
    pct = tmp_path / "pct"
    pct.write_text(f'#!/bin/sh\necho "$1" >>{tmp_path}/calls\n[ "$1" != {fails} ]\n')
    pct.chmod(0o755)
    lines = chained([line.format(d=tmp_path / "d") for line in LINES])
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    script = "\n".join([*lines, "echo the shell goes on", ""])
    said = subprocess.run(shell, input=script, text=True, capture_output=True, env=environment)
    assert "the shell goes on" in said.stdout  # a person stays logged in
    assert (tmp_path / "d/owned").exists()
    calls = (tmp_path / "calls").read_text().split()
    assert calls == (["set"] if fails == "set" else ["set", "reboot"])
    assert (str(tmp_path / "d\n") in said.stdout) == (fails == "nothing")


def test_one_command_is_left_as_it_is() -> None:
    assert chained(["pct reboot 101"]) == ["pct reboot 101"]
    assert chained([]) == []
