"""Connections over ssh notice a lost link, whatever they are for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from paddock.channels.ssh import SshGuest


def _piped(guest: SshGuest) -> None:
    with guest.piped(["true"]) as pipes:
        pipes.end()


USES: dict[str, Callable[[SshGuest], object]] = {
    "run": lambda guest: guest.run(["true"]),
    "attach": lambda guest: guest.attach(["true"], terminal=False),
    "stream": lambda guest: guest.stream(["true"], print, print),
    "piped": _piped,
    "forward": lambda guest: guest.forward(8080, 80),
}


@pytest.mark.parametrize("use", USES)
def test_ssh_connections_have_keepalives_and_a_connect_timeout(
    use: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "ssh"
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/argv\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    USES[use](SshGuest("box", "192.0.2.7"))
    options = (tmp_path / "argv").read_text().splitlines()
    assert {"ServerAliveInterval=30", "ServerAliveCountMax=3", "ConnectTimeout=10"} <= set(options)
