"""Finding 11: a run that was killed between "in force" and the restart left the process on its old key and settings.

The real scripts run for the account's own systemd, with a `systemctl` and a `podman` that only keep a record. They are
killed at one of their commands after another; after every kill the next `up` has to bring about what the file says.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from levels import by_level
from paddock.run.deployment import Deployment, deployments
from paddock.run.reporter import Reporter
from paddock.spec.load import load

# All commands of all cases take minutes. Otherwise each change takes every 18th, the second one those in between.
_STRIDE = by_level(36, 18, 1)

_FILE = """\
places: {{here: {{host: {{{scope}}}}}}}
agents:
  web:
    kind: service
    place: here
    runtime: {runtime}
    command: [/bin/true]
    environment: {{COLOUR: {colour}}}
    secrets: {{KEY: {{env: WEB_KEY}}}}
    {container}
"""

# Records which key and which configuration a started process has read.
_SYSTEMCTL = r"""#!/bin/sh
[ "$1" != --user ] || shift
root=$HOME/.config/paddock/web running=$HOME/running
run() { { cat "$root/secrets.env" && readlink "$root/current"; } >"$running"; }
verb=$1
shift
case "$verb $*" in
    start*lease*) [ -e "$running" ] || run ;;
    start*main* | start*container*) [ -e "$running" ] || run ;;
    restart*main* | restart*container*) run ;;
    is-active*) for unit; do case $unit in --*) ;; *) [ ! -e "$running" ] || echo active ;; esac; done ;;
    show*NFileDescriptorStore*) echo 1 ;;
    show*SubState*) printf 'SubState=running\nNRestarts=0\n' ;;
esac
"""
_PODMAN = r"""#!/bin/sh
case "$*" in
    info*) echo driver=overlay ;;
    *'container inspect'*identity*) cat "$HOME/identity" ;;
esac
"""
# Before a script: ends it, as kill -9 does, at its command number $KILL_AT; says how many there were.
_KILLED = """\
set -o functrace
count=0
trap 'echo "$count" >"$COUNT_FILE"' EXIT
trap 'count=$((count + 1)); [ "$count" != "$KILL_AT" ] || kill -9 $$ $BASHPID' DEBUG
"""


@dataclass(frozen=True)
class Account:
    """An account with an agent that runs, and a file that says something else by now."""

    home: Path
    file: Path

    @property
    def running(self) -> str:
        """What the process has read when it was started."""
        return (self.home / "running").read_text()

    def write(self, runtime: str, *, key: str, colour: str) -> None:
        os.environ["WEB_KEY"] = key
        scope = "scope: user" if runtime != "process" else ""
        container = "container: {base: 'debian:12'}" if runtime == "podman" else ""
        self.file.write_text(_FILE.format(runtime=runtime, colour=colour, scope=scope, container=container))

    @contextmanager
    def deployment(self) -> Iterator[Deployment]:
        with deployments(load(self.file), [], Reporter()) as found:
            if container := found[0].runtime.container:
                (self.home / "identity").write_text(container.identity(found[0].workload))
            yield found[0]

    def up(self, deployment: Deployment) -> bool:
        """What `up` does on the machine, without looking at the agent afterwards; whether it had something to do."""
        plan = deployment.plan_up(deployment.observe())
        assert not plan.refusals
        steps = [step.id for step in plan.steps]
        assert set(steps) <= {"agent.configure", "agent.answer"}
        if "agent.configure" not in steps:
            return False
        self.apply(deployment, deployment.runtime.apply(deployment.bundle.id))
        return True

    def apply(self, deployment: Deployment, argv: Sequence[str], **environment: str) -> int:
        archive = deployment.bundle.archive(deployment.secrets, deployment.secret_files)
        done = subprocess.run(argv, input=archive, env=os.environ | environment, capture_output=True)
        assert done.returncode in (0, -9), done.stderr.decode()
        return done.returncode

    def cut_off(self, deployment: Deployment, at: int) -> int:
        """Apply the bundle, killed at a command; returns how many commands there were, or 0 if it was killed."""
        argv = list(deployment.runtime.apply(deployment.bundle.id))
        text = argv.index("-c") + 1
        argv[text - 2 : text + 1] = ["bash", "--posix", "-c", _KILLED + argv[text]]
        count = self.home.parent / "count"
        killed = self.apply(deployment, argv, KILL_AT=str(at), COUNT_FILE=str(count))
        return 0 if killed else int(count.read_text())


@pytest.fixture
def account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Account:
    home, bin_ = tmp_path / "home", tmp_path / "bin"
    home.mkdir()
    bin_.mkdir()
    programs = {"systemctl": _SYSTEMCTL, "podman": _PODMAN}
    silent = dict.fromkeys(("journalctl", "loginctl", "newuidmap", "getsubids", "runc"), "#!/bin/sh\n")
    for name, text in (programs | silent).items():
        (bin_ / name).write_text(text)
        (bin_ / name).chmod(0o755)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_DATA_HOME", str(home / ".local/share"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.setenv("PATH", f"{bin_}:{os.environ['PATH']}")
    monkeypatch.setenv("WEB_KEY", "")
    return Account(home, tmp_path / "paddock.yaml")


@pytest.mark.parametrize("change", [{"key": "new"}, {"colour": "blue"}], ids=["key", "settings"])
@pytest.mark.parametrize("runtime", ["systemd", "podman", "process"])
def test_what_a_killed_run_has_put_in_force_is_what_runs_after_the_next(
    account: Account, runtime: str, change: dict[str, str]
) -> None:
    before = {"key": "old", "colour": "red"}
    account.write(runtime, **before)
    with account.deployment() as deployment:
        assert account.up(deployment)
        assert not account.up(deployment)
    saved = account.home.with_name("saved")
    shutil.copytree(account.home, saved, symlinks=True)

    account.write(runtime, **before | change)
    stale = []
    with account.deployment() as deployment:
        commands = account.cut_off(deployment, 0)
        wanted = account.running if runtime != "process" else ""
        assert commands > 40
        for at in range(1 if "key" in change else 1 + _STRIDE // 2, commands + 1, _STRIDE):
            shutil.rmtree(account.home)
            shutil.copytree(saved, account.home, symlinks=True)
            account.cut_off(deployment, at)
            account.up(deployment)
            assert not account.up(deployment), f"killed at command {at}, `up` never comes to an end"
            if wanted and account.running != wanted:
                stale.append(at)
    assert not stale, (
        f"killed at command {stale[0]} to {stale[-1]} of {commands}, the next `up` left the process with what it had"
        f" read before the change, and reported success ({len(stale)} of {commands} commands)"
    )


def test_a_run_with_nothing_new_restarts_nothing(account: Account) -> None:
    account.write("systemd", key="old", colour="red")
    with account.deployment() as deployment:
        account.up(deployment)
        (account.home / "running").write_text("as it was")
        account.apply(deployment, deployment.runtime.apply(deployment.bundle.id))
    assert account.running == "as it was"
