"""A schedule with the real systemd of a container, in which Paddock is installed."""

from __future__ import annotations

import json
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyrage import x25519

import paddock
from levels import slow_proof
from live.manual import container, destroy
from live.node import Node, wait_for
from live.test_lease import api
from live.test_native import ACCOUNT
from paddock.places.proxmox.api.client import Client

__all__ = ["api"]
pytestmark = pytest.mark.live

# What Paddock imports. The container has the same version of Python.
LIBRARIES = (
    *("annotated_doc", "annotated_types", "anyio", "certifi", "click", "h11", "httpcore", "httpx", "idna"),
    *("markdown_it", "mdurl", "pydantic", "pydantic_core", "pygments", "pyrage", "rich", "ruamel", "shellingham"),
    *("typer", "typing_extensions.py", "typing_inspection", "zstandard"),
)
FILE = """\
project: home
places: {{here: {{host: {{}}}}, nas: {{host: {{address: {address}, key: {key}, host_key: {host_key}}}}}}}
agents:
  web:
    kind: service
    place: here
    command: [sleep, infinity]
    backup: {{to: ./backups, recipients: [{recipient}], keep: {{last: 2}}}}
notify: {{command: [sh, -c, "cat >>/srv/agents/told"]}}
"""


@pytest.fixture
def host(node: Node, api: Client) -> Iterator[str]:
    where = container(node, api, 215)
    install_paddock(node, where)
    yield where
    destroy(api, 215)


def install_paddock(node: Node, where: str) -> None:
    """Copy Paddock and its libraries into the container."""
    source, libraries = Path(paddock.__file__).parents[1], Path(sysconfig.get_paths()["platlib"])
    there = [name for name in LIBRARIES if (libraries / name).exists()]
    words = ["--exclude=__pycache__", "-C", str(libraries), *there, "-C", str(source), "paddock"]
    archive = subprocess.run(["tar", "--create", *words], capture_output=True, check=True, timeout=60).stdout
    options = ["-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR"]
    options += ["-i", str(node.stage.folder / "id_ed25519")]
    unpack = (
        "mkdir -p /usr/local/lib/python3.11/dist-packages /srv/agents && "
        "tar --extract --no-same-owner -C /usr/local/lib/python3.11/dist-packages && "
        "printf '#!/bin/sh\\nexec python3 -P -m paddock \"$@\"\\n' >/usr/local/bin/paddock && "
        "chmod 755 /usr/local/bin/paddock"
    )
    subprocess.run(["ssh", *options, f"root@{where}", unpack], input=archive, check=True, timeout=60)


def test_a_timer_is_installed_only_if_the_backup_works_in_its_environment(node: Node, host: str) -> None:
    from paddock.channels.ssh import scan_host_key

    identity = x25519.Identity.generate()
    key = node.stage.folder / "id_ed25519"
    text = FILE.format(address=host, key=key, host_key=scan_host_key(host), recipient=identity.to_public())
    node.shell(host, f"cat >/srv/agents/paddock.yaml <<'END'\n{text}END\n")
    run = f"cd /srv/agents && PADDOCK_AGE_KEY={identity} paddock"
    unasked = node.shell(host, f"{run} up 2>&1 || echo code $?")
    assert "starts what this account has not approved" in unasked
    assert unasked.endswith("code 4\n")
    node.shell(host, f"{run} approve --yes 2>&1 && {run} up 2>&1 && {run} backup make 2>&1")

    # The identity is in the environment of the person only.
    refused = node.shell(host, f"{run} schedule 2>&1 || echo code $?")
    assert "the backup does not work under the timer, so the timer was not installed" in refused
    assert "/srv/agents/backups/home_web is encrypted" in refused
    assert "NAME=value lines into /root/.config/paddock/backup-home.env (chmod 600)" in refused
    assert refused.endswith("code 1\n")
    assert node.shell(host, "systemctl list-unit-files --no-legend 'paddock-backup-*' || true") == ""
    told = json.loads(node.shell(host, "cat /srv/agents/told"))
    assert (told["event"], told["agent"]) == ("backup failed", "web")

    environment = "/root/.config/paddock/backup-home.env"
    node.shell(host, f"mkdir -p /root/.config/paddock && echo PADDOCK_AGE_KEY={identity} >{environment}")
    readable = node.shell(host, f"cd /srv/agents && paddock schedule 2>&1 || chmod 600 {environment}")
    assert f"{environment} can be read by other accounts" in readable

    # A run that is killed leaves a trial that ends by itself. Meanwhile another run is refused.
    for seconds in (0.5, 1, 1.5):
        node.shell(
            host, f"cd /srv/agents && timeout -s KILL {seconds} paddock schedule --at 03:30 >/dev/null 2>&1; true"
        )
    said: list[str] = []

    def installed() -> bool:
        said.append(node.shell(host, "cd /srv/agents && paddock schedule --at 03:30 2>&1; true"))
        assert "timer is installed" in said[-1] or "the trial of an earlier `paddock schedule` is" in said[-1], said
        return "paddock-backup-home.timer is installed; the next backup is on " in said[-1]

    wait_for(installed)
    timers = node.shell(host, "systemctl list-timers --all --no-pager paddock-backup-home.timer")
    assert "paddock-backup-home.service" in timers
    assert str(identity) not in node.shell(host, "systemctl cat 'paddock-backup-home.*'")
    before = node.shell(host, "ls /srv/agents/backups/home_web/*.json")
    assert "nothing to do" in node.shell(host, "cd /srv/agents && paddock schedule --at 03:30")
    assert node.shell(host, "ls /srv/agents/backups/home_web/*.json") == before, "a second schedule makes no backup"

    # The unit itself works, and removes old backups.
    node.shell(host, "systemctl start paddock-backup-home.service")
    assert len(node.shell(host, "ls /srv/agents/backups/home_web/*.tar.zst.age").split()) == 2
    assert "Result=success" in node.shell(host, "systemctl show -p Result paddock-backup-home.service")

    # From another machine: the same host, by the name of its place.
    here = node.stage.folder / "scheduled.yaml"
    here.write_text(text)
    node.shell(host, "cp /srv/agents/paddock.yaml /srv/agents/scheduled.yaml")
    other = node.paddock("schedule", "-f", str(here), "--on", "nas", "--folder", "/srv/agents", fails=True).stderr
    assert "/etc/systemd/system/paddock-backup-home.service belongs to something else" in other
    node.shell(host, "cd /srv/agents && paddock schedule remove")
    done = node.paddock("schedule", "-f", str(here), "--on", "nas", "--folder", "/srv/agents").stdout
    assert "paddock-backup-home.timer is installed" in done
    node.paddock("schedule", "remove", "-f", str(here), "--on", "nas", "--folder", "/srv/agents")
    assert "0 timers" in node.shell(host, "systemctl list-timers --all --no-pager 'paddock-backup-*'")
    missing = node.paddock("schedule", "-f", str(here), "--on", "nas", fails=True).stderr
    assert f"nas has no {here}" in missing


# As the version before approvals installed it: for a folder of an account, and with a command in the file.
EARLIER = """\
from pathlib import Path
from paddock.verbs.schedule import Timer
timer = Timer(project="home", command=("/usr/bin/python3", "-P", "-m", "paddock"), files=["{file}"], sets=[],
    folder="{folder}", at="daily", environment="/root/.config/paddock/backup-home.env", system=True)
for name, text in timer.units().items():
    Path("/etc/systemd/system", name).write_text(text)
"""


@slow_proof
def test_the_timer_of_root_from_an_earlier_version_runs_as_the_owner_of_its_file(node: Node, host: str) -> None:
    node.shell(host, ACCOUNT)
    text = "project: home\nplaces: {here: {host: {scope: user}}}\nagents:\n"
    text += "  web: {kind: service, place: here, command: [sleep, infinity], backup: {to: ./backups},\n"
    text += '    secrets: {WHO: {command: [sh, -c, "id -u | tee -a who"]}}}\n'
    node.shell(host, f"cd ~someone && cat >paddock.yaml <<'END'\n{text}END\n")
    node.shell(host, "chown someone: ~someone/paddock.yaml")
    run = "runuser -u someone -- env HOME=/home/someone XDG_RUNTIME_DIR=/run/user/$(id -u someone) paddock"
    node.shell(
        host, f"cd ~someone && {run} approve --yes 2>&1 && {run} up 2>&1 && rm -r ~someone/.local/state/paddock who"
    )

    refused = node.shell(host, "cd ~someone && paddock schedule 2>&1 || echo code $?")
    assert "/home/someone belongs to someone" in refused
    assert "sudo -iu someone paddock schedule --file /home/someone/paddock.yaml" in refused
    assert refused.endswith("code 4\n")
    earlier = EARLIER.format(file="/home/someone/paddock.yaml", folder="/home/someone")
    node.shell(host, f"python3 - <<'END'\n{earlier}END\nsystemctl daemon-reload")

    node.shell(host, "systemctl start paddock-backup-home.service")
    # It has approved the command for that account.
    node.shell(host, f"cd ~someone && {run} status")
    assert set(node.shell(host, "cat ~someone/who").split()) == {"1000"}
    assert node.shell(host, "stat -c %U ~someone/backups/home_web/*.tar.zst").split() == ["someone"]
    assert "running as someone" in node.shell(host, "journalctl --no-pager -o cat -u paddock-backup-home.service")
    # What is new since then needs an approval of that account. Until then the unit fails, and `status` shows it.
    node.shell(
        host, "sed -i 's/id -u/id -un/' ~someone/paddock.yaml; systemctl start paddock-backup-home.service; true"
    )
    assert "ExecMainStatus=4" in node.shell(host, "systemctl show -p ExecMainStatus paddock-backup-home.service")
    node.shell(host, f"cd ~someone && {run} approve --yes 2>&1")
    assert "failed with code 4 on " in node.shell(host, f"cd ~someone && {run} status")
    node.shell(host, "systemctl start paddock-backup-home.service")
    assert "failed with code" not in node.shell(host, f"cd ~someone && {run} status")
    # Nobody can be chosen: neither of two accounts may decide what the other one runs.
    node.shell(host, "chown nobody ~someone/paddock.yaml; systemctl start paddock-backup-home.service; true")
    assert "failed with code 4 on " in node.shell(host, f"cd ~someone && {run} status")


@slow_proof
def test_the_timer_of_an_account_runs_in_its_own_systemd(node: Node, host: str) -> None:
    node.shell(host, ACCOUNT)
    text = "project: home\nplaces: {here: {host: {scope: user}}}\nagents:\n"
    text += "  web: {kind: service, place: here, command: [sleep, infinity], backup: {to: ./backups}}\n"
    node.shell(host, f"cd ~someone && cat >paddock.yaml <<'END'\n{text}END\n")
    run = "runuser -u someone -- env --unset XDG_RUNTIME_DIR --unset DBUS_SESSION_BUS_ADDRESS HOME=/home/someone"
    inside = f"cd ~someone && {run} XDG_RUNTIME_DIR=/run/user/$(id -u someone)"
    node.shell(host, f"{inside} paddock up")
    # ssh does not always set XDG_RUNTIME_DIR.
    said = node.shell(host, f"cd ~someone && {run} paddock schedule 2>&1; true")
    assert "paddock-backup-home.timer is installed; the next backup is on " in said, said
    assert "linger" not in said
    assert "paddock-backup-home.service" in node.shell(host, f"{inside} systemctl --user list-timers --no-pager --all")
    node.shell(host, f"{inside} systemctl --user start paddock-backup-home.service")
    assert len(node.shell(host, "ls ~someone/backups/home_web/*.tar.zst").split()) == 2
    node.shell(host, "loginctl disable-linger someone; systemctl start user@$(id -u someone)")
    changed = node.shell(host, f"{inside} paddock schedule --at weekly 2>&1")
    assert "`loginctl enable-linger` lets it run always" in changed
    node.shell(host, f"{inside} paddock schedule remove")
    assert node.shell(host, "find ~someone/.config/systemd -name 'paddock-backup-*'") == ""
