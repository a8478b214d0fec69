"""What a host offers, and the shapes of an agent that fit it."""

from __future__ import annotations

import os
import platform
import subprocess
from dataclasses import asdict
from pathlib import Path

import pytest

from cases import agrees, golden, read_case
from paddock.channels import Unreachable
from paddock.channels.local import LocalGuest
from paddock.channels.sent import text
from paddock.channels.ssh import SshGuest
from paddock.places.host.survey import Fit, parsed, shapes, survey
from sshd import sshd


def report(records: list[tuple[str, str]]) -> str:
    return "\0report=1\0" + "".join(f"{name}={value}\0" for name, value in records) + "end=ok\0"


def shown(fits: list[Fit]) -> list[str]:
    """Return a line for each fit, as short as its content."""
    lines = []
    for fit in fits:
        how = f"{fit.runtime}, {fit.scope}{', install' if fit.install else ''}" if fit.fits else "does not fit"
        lines.append(f"{fit.shape} ({how}): {fit.why}")
    return lines


@pytest.mark.parametrize("path", golden("host_survey"))
def test_a_report_becomes_a_survey_and_the_shapes_that_fit(path: Path) -> None:
    case = read_case(path)
    host = parsed(report(case["report"]))
    data = asdict(host) | {"libc": list(host.libc) if host.libc else None}
    data |= {"engines": list(data["engines"]), "installed_engines": list(host.installed_engines)}
    data |= {"pythons": list(host.pythons), "other_pythons": list(host.other_pythons)}
    assert agrees(path, case, "host", data)
    assert agrees(path, case, "shapes", shown(shapes(host)))
    assert agrees(path, case, "here", shown(shapes(host, local=True)))


def test_this_machine_is_surveyed_in_one_round_trip() -> None:
    host = survey(LocalGuest())
    assert (host.system, host.architecture) == ("Linux", platform.machine())
    assert host.root == (os.geteuid() == 0)
    assert host.systemd == (Path("/proc/1/comm").read_text() == "systemd\n")
    assert host.free > 0
    assert host.title.isprintable()


def test_a_host_is_surveyed_over_ssh(tmp_path: Path) -> None:
    key = tmp_path / "id"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    with sshd(tmp_path, key.with_name("id.pub"), "") as server:
        guest = SshGuest("host", "127.0.0.1", "root", server.port, key, (server.key,))
        host = survey(guest)
        assert (host.root, host.account, host.architecture) == (True, "root", platform.machine())
        wrong = SshGuest("host", "127.0.0.1", "root", server.port, key, ("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAA",))
        with pytest.raises(Unreachable):
            survey(wrong)


def test_programs_that_hang_or_fail_do_not_stop_the_survey(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "timeout").write_text('#!/bin/sh\nshift\nexec /usr/bin/timeout 0.2 "$@"\n')
    (tmp_path / "podman").write_text("#!/bin/sh\nsleep 60\n")
    (tmp_path / "docker").write_text("#!/bin/sh\nhead -c 100000 /dev/zero\nprintf '\\nend=ok\\n'; exit 1\n")
    (tmp_path / "df").write_text("#!/bin/sh\necho oops oops oops $(date) oops\n")
    for program in tmp_path.iterdir():
        program.chmod(0o755)
    script = text("survey.sh")
    done = subprocess.run(
        ["sh", "-c", script.replace("PATH=/usr", f"PATH={tmp_path}:/usr")],
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        timeout=60,
        check=True,
    )
    host = parsed(done.stdout.decode())
    assert host.engines == ()
    assert set(host.installed_engines) >= {"docker", "podman"}
    assert host.free == 0
