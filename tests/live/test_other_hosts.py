"""Hosts that are not Debian, made from Debian: one without dpkg and apt, and one that looks like NixOS."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from levels import slow_proof
from live.manual import container, destroy
from live.node import Node
from live.test_lease import api, by_ssh
from live.test_native import ACCOUNT, as_account
from paddock.demo import FACT, QUESTION
from paddock.places.proxmox.api.client import Client

__all__ = ["api"]
pytestmark = [pytest.mark.live, slow_proof]

WITHOUT_DPKG = "rm -rf /usr/bin/dpkg* /usr/bin/apt* /var/lib/dpkg /var/lib/apt /etc/apt"

# Programs are in the store of Nix, and in /run/current-system/sw/bin. Below /usr there are only those that run Debian
# itself, and sh and env, which NixOS has too. The accounts find programs by their PATH alone. No library of C++ is
# where programs look for libraries. Units of the machine cannot be added.
NIX = "apt-get install -y -qq --no-install-recommends nix-bin nix-setup-systemd >/dev/null 2>&1"
NIXOS = r"""
set -e
usermod --append --groups nix-users someone
usermod --shell /run/current-system/sw/bin/bash someone
usermod --shell /run/current-system/sw/bin/bash root
mkdir -p /build/sw /build/python/bin /build/python/lib /build/few /build/sbin /build/nix
systemctl start nix-daemon.service
cp -a /usr/bin /build/sw/bin
rm /build/sw/bin/nix-store
printf '#!/bin/sh\nLD_LIBRARY_PATH=/build/nix exec /build/nix/nix-store "$@"\n' >/build/sw/bin/nix-store
chmod 755 /build/sw/bin/nix-store
cp /usr/bin/nix /build/nix/nix-store
rm -f /build/sw/bin/python3* /build/sw/bin/apt* /build/sw/bin/dpkg*
cp /usr/bin/python3.11 /build/python/bin/
ln -s python3.11 /build/python/bin/python3
cp -a /usr/lib/python3.11 /build/python/lib/
cp /usr/bin/env /usr/bin/sh /build/few/
cp /usr/sbin/sshd /build/sbin/
sw=$(nix-store --add /build/sw)
python=$(nix-store --add /build/python)
ln -s "$sw" /nix/var/nix/gcroots/sw
ln -s "$python" /nix/var/nix/gcroots/python
mkdir -p /run/current-system/sw/bin
ln -s "$sw"/bin/* "$python"/bin/* /run/current-system/sw/bin/
echo PATH=/run/wrappers/bin:/run/current-system/sw/bin >/etc/environment
rm -f /etc/os-release
printf 'NAME=NixOS\nID=nixos\n' >/etc/os-release
touch /etc/NIXOS
mv /usr/lib/*-linux-gnu/libstdc++.so.6* /build/nix/
mount --bind /etc/systemd/system /etc/systemd/system
mount -o remount,bind,ro /etc/systemd/system
mount --bind /build/sbin /usr/sbin
mount --bind /build/few /usr/bin
"""


@pytest.fixture
def host(node: Node, api: Client) -> Iterator[str]:
    yield container(node, api, 211)
    destroy(api, 211)


def test_a_machine_without_dpkg_is_planned_for_by_its_programs(node: Node, host: str) -> None:
    node.shell(host, WITHOUT_DPKG)
    tree = by_ssh(node, host)
    path = str(node.write("bare.yaml", tree))
    lacks = "the machine lacks git, ripgrep, and has neither apt-get nor dnf to install packages"
    assert lacks in node.paddock("plan", "-f", path).stdout
    assert lacks in node.paddock("up", "-f", path).stderr
    assert node.paddock("ask", "hermes", "Say hello.", "-f", path).stdout.strip() == "ok: Say hello."
    assert node.paddock("plan", "-f", path).stdout == "hermes: nothing to do\n", "they are named once"

    tree["agents"]["hermes"]["packages"] = ["bc"]
    path = str(node.write("bare.yaml", tree))
    refused = node.paddock("plan", "-f", path, fails=True).stdout
    assert "hermes needs bc, and its machine has neither apt-get nor dnf to install packages" in refused
    node.shell(host, "printf '#!/bin/sh\n' >/usr/local/bin/bc && chmod 755 /usr/local/bin/bc")
    assert node.paddock("plan", "-f", path).stdout == "hermes: nothing to do\n"


def test_on_a_machine_like_nixos_an_account_runs_the_agent(node: Node, host: str) -> None:
    for script in (ACCOUNT, NIX, NIXOS):
        node.shell(host, script)
    as_root = str(node.write("nixos.yaml", by_ssh(node, host)))
    refused = node.paddock("up", "-f", as_root, fails=True).stderr
    assert "hermes cannot be a system service on NixOS, where /etc/systemd/system is read-only" in refused
    assert "host: {scope: user}" in refused
    assert "✗ nixos" in node.paddock("doctor", "-f", as_root, fails=True).stdout

    path = str(node.write("nixos.yaml", as_account(node, host)))
    told = node.paddock("up", "-f", path).stderr
    assert "Paddock drops that line" not in told, "programs were not found in the trials"
    node.paddock("ask", "hermes", f"Remember: {FACT}", "-f", path)
    assert node.paddock("plan", "-f", path).stdout == "hermes: nothing to do\n"
    assert node.shell(host, "ls /usr/bin /usr/local/bin") == "/usr/bin:\nenv\nsh\n\n/usr/local/bin:\n"
    main = "pgrep --uid someone --full hermes/hermes | head -n 1"
    paths = node.shell(host, f"tr '\\0' '\n' </proc/$({main})/environ | sed -n 's/^PATH=//p'").strip()
    assert paths.endswith(":/run/wrappers/bin:/run/current-system/sw/bin")

    # Nix deletes what is not in use. A running program counts as used, so the agent is stopped. Its code uses Python.
    python = node.shell(host, "readlink /nix/var/nix/gcroots/python && rm /nix/var/nix/gcroots/python").strip()
    node.shell(host, "systemctl stop user@1000 && nix-store --gc >/dev/null 2>&1 && systemctl start user@1000")
    node.paddock("up", "-f", path)
    assert node.paddock("ask", "hermes", QUESTION, "-f", path).stdout.strip() == FACT
    node.paddock("down", "-f", path)
    assert node.shell(host, f"nix-store --gc >/dev/null 2>&1; ls -d {python} 2>&1 || true").startswith("ls: ")
