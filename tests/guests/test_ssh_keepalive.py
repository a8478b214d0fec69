"""Connections over ssh notice a lost link."""

from __future__ import annotations

from pathlib import Path

import pytest

from paddock.guests.ssh import SshGuest


def test_ssh_connections_have_keepalives_and_a_connect_timeout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "ssh"
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/argv\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    SshGuest("box", "192.0.2.7").run(["true"])
    options = (tmp_path / "argv").read_text().splitlines()
    assert {"ServerAliveInterval=30", "ServerAliveCountMax=3", "ConnectTimeout=10"} <= set(options)
