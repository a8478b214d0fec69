"""From the wheel to an answer: install it in a new Debian 12, start a sandbox there, and talk to an agent in it."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from levels import slow_proof
from live.clean_debian import CleanDebian, clean_debian
from live.node import Node
from paddock.demo import FACT, QUESTION
from shell_doc import ROOT

pytestmark = [pytest.mark.live, slow_proof]

# The programs that `pvebox probe` asks for; the README of the sandbox has the same list.
PROGRAMS: Final = (
    "lxc uidmap mmdebstrap debian-archive-keyring dnsmasq-base iptables iproute2 nftables e2fsprogs openssh-client "
    "openssl zstd util-linux"
)
APT: Final = "DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends"


def build_wheel(folder: Path) -> Path:
    build = ["build", "--wheel", "--no-build-isolation", "--python", sys.executable, "--offline", "--quiet"]
    subprocess.run([sys.executable, "-m", "uv", *build, "--out-dir", str(folder), str(ROOT)], check=True, timeout=120)
    (wheel,) = folder.glob("*.whl")
    return wheel


def test_a_new_debian_gets_an_answer_in_minutes(node: Node, tmp_path: Path, show_table: Callable[[str], None]) -> None:
    wheel = build_wheel(tmp_path / "dist")
    times: list[tuple[str, float]] = []

    def timed(machine: CleanDebian, title: str, script: str) -> str:
        begin = time.monotonic()
        printed = machine.run(script)
        times.append((title, time.monotonic() - begin))
        return printed

    with clean_debian(node, tmp_path) as machine:
        shutil.copy(wheel, machine.root / "root")
        timed(
            machine,
            "apt-get install pipx, and the programs of the sandbox",
            f"apt-get update -qq; {APT} pipx {PROGRAMS}",
        )
        # pipx of Debian 12 takes a file only with a path.
        timed(machine, "pipx install the wheel", f"pipx install './{wheel.name}[sandbox]'")
        assert machine.run("paddock --version").strip() == wheel.name.split("-")[1]
        assert "_PADDOCK_COMPLETE=complete_zsh" in machine.run("paddock --show-completion zsh")
        try:
            said = timed(machine, "paddock init --sandbox", "mkdir first && cd first && paddock init --sandbox --yes")
            assert "Next: paddock up" in said
            timed(machine, "paddock up", "cd first && paddock up")
            told = timed(machine, "paddock ask", f"cd first && paddock ask hermes 'Remember: {FACT}'")
            assert FACT in told
            assert machine.run(f"cd first && paddock ask hermes '{QUESTION}'").strip() == FACT
            machine.run("cd first && paddock check && paddock doctor")
        finally:
            machine.run("paddock sandbox clean")
    rows = [*times, ("from the wheel to the answer", sum(seconds for _, seconds in times[1:]))]
    show_table("\n".join(f"{title:<56} {seconds:6.1f} s" for title, seconds in rows))
