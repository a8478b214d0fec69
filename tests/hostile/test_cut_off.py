"""After a kill between switching the bundle and the restart, the next `up` restarts the process with the new bundle.

The real program runs for an account without root, with stubs for `systemctl` and `podman`. The tests kill it at every
system call before which a file has changed. After every kill, the next `up` must leave the agent as the file says.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

import killed_script
from killed_script import files_below, watch
from levels import by_level, slow_proof
from paddock.channels import onboard
from paddock.channels.local import LocalGuest
from paddock.channels.onboard import ask, sent
from paddock.channels.sent import source
from paddock.core.converge import plan_up
from paddock.core.observe import observe
from paddock.core.open import deployments
from paddock.core.resolve import Resolved, locate, resolve
from paddock.kinds import load
from paddock.show.reporter import Reporter

# Otherwise only the last kills are tried: those between the switch of the bundle and the end.
_LAST = by_level(5, 1000)

_FILE = """\
project: home
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

# Records the key and the bundle that a started process has read.
_SYSTEMCTL = r"""#!/bin/sh
[ "$1" != --user ] || shift
root=$HOME/.config/paddock/home_web running=$HOME/running
run() { { cat "$root/secrets.env" && readlink "$root/current"; } >"$running"; }
case "$*" in
    start*enter@*) exit 1 ;;
    start*lease*) [ -e "$running" ] || run ;;
    start*main* | start*container*) [ -e "$running" ] || run ;;
    restart*main* | restart*container*) run ;;
    show*)
        for unit; do case $unit in *.service)
            state=inactive
            [ ! -e "$running" ] || state=active
            printf 'ActiveState=%s\nSubState=running\nNRestarts=0\nNFileDescriptorStore=1\n\n' $state
        esac; done
        ;;
esac
"""
_PODMAN = r"""#!/bin/sh
case "$*" in
    info*) echo overlay ;;
    'image inspect'*) echo '[{"Id": "sha256:0123"}]' ;;
    'container inspect'*)
        labels="{\"paddock.agent\": \"home_web\", \"paddock.identity\": \"$(cat "$HOME/identity")\"}"
        about='"Name": "paddock-home_web", "Id": "c0ffee", "Image": "0123", "State": {"Pid": 1}'
        case " $* " in
            *' paddock-home_web '*) echo "[{$about, \"Config\": {\"Labels\": $labels}}]" ;;
            *) echo '[]'; exit 1 ;;
        esac
        ;;
esac
"""


@dataclass(frozen=True)
class Account:
    """An account with a running agent, and a paddock.yaml that can be changed."""

    home: Path
    file: Path

    @property
    def running(self) -> str:
        """The key and the bundle that the process read when it started."""
        return (self.home / "running").read_text()

    def write(self, runtime: str, *, key: str, colour: str) -> None:
        os.environ["WEB_KEY"] = key
        scope = "scope: user" if runtime != "process" else ""
        container = "container: {base: 'debian:12'}" if runtime == "podman" else ""
        self.file.write_text(_FILE.format(runtime=runtime, colour=colour, scope=scope, container=container))

    @contextmanager
    def deployment(self) -> Iterator[Resolved]:
        with deployments(load(self.file), [], Reporter()) as found:
            agent = resolve(locate(found[0]))
            if container := agent.runtime.container:
                (self.home / "identity").write_text(container.identity(agent.workload))
            yield agent

    def up(self, deployment: Resolved) -> bool:
        """Run the scripts of `up` without verifying the agent. Return whether there was something to do."""
        plan = plan_up(deployment, deployment.want(), observe(deployment))
        assert not plan.refusals
        steps = [step.id for step in plan.steps]
        assert set(steps) <= {"agent.configure", "agent.answer"}
        if "agent.configure" not in steps:
            return False
        self.apply(deployment)
        return True

    def apply(self, deployment: Resolved) -> None:
        """Apply the bundle."""
        ask(LocalGuest(), "applying", deployment.runtime.apply(deployment.sent()))

    def calls(self, deployment: Resolved) -> tuple[int, list[int]]:
        """Apply the bundle. Return how many changing calls that takes, and before which a kill leaves other files."""

        def look() -> object:
            try:
                return files_below([str(self.home), os.environ["XDG_RUNTIME_DIR"]])
            except FileNotFoundError:  # another process of the request has just removed it
                return object()

        argv, stdin = sent(deployment.runtime.apply(deployment.sent()))
        return killed_script.calls(argv, stdin, os.environ, look)

    def cut_off(self, deployment: Resolved, at: int) -> None:
        """Apply the bundle and kill it before a call."""
        argv, stdin = sent(deployment.runtime.apply(deployment.sent()))
        code, said = watch(argv, stdin, os.environ, lambda number: number == at)
        assert code == -signal.SIGKILL, said


@pytest.fixture
def account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Account]:
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
    # If root runs the tests, the program finds the stubs where only root can write.
    monkeypatch.setattr(
        onboard, "source", lambda name: source(name).replace('SYSTEM_PATH = "', f'SYSTEM_PATH = "{bin_}:')
    )
    onboard.module_frame.cache_clear()
    yield Account(home, tmp_path / "paddock.yaml")
    onboard.module_frame.cache_clear()


@pytest.mark.parametrize(
    ("runtime", "change"),
    [
        pytest.param("systemd", {"key": "new"}, id="systemd-key"),
        pytest.param("systemd", {"colour": "blue"}, id="systemd-settings"),
        pytest.param("podman", {"key": "new"}, id="podman-key"),
        pytest.param("podman", {"colour": "blue"}, id="podman-settings", marks=slow_proof),
        pytest.param("process", {"key": "new"}, id="process-key", marks=slow_proof),
        pytest.param("process", {"colour": "blue"}, id="process-settings"),
    ],
)
def test_the_up_after_a_killed_run_restarts_the_process_with_the_new_bundle(
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
        calls, differing = account.calls(deployment)
        wanted = account.running if runtime != "process" else ""
        assert calls > 40
        assert len(differing) > 4
        for at in differing[-_LAST:]:
            shutil.rmtree(account.home)
            shutil.copytree(saved, account.home, symlinks=True)
            account.cut_off(deployment, at)
            account.up(deployment)
            assert not account.up(deployment), f"killed at call {at}, a second `up` still has something to do"
            if wanted and account.running != wanted:
                stale.append(at)
    assert not stale, (
        f"killed at call {stale[0]} to {stale[-1]} of {calls}, the next `up` left the process with its old key and"
        f" settings, and reported success ({len(stale)} of {calls} calls)"
    )


def test_applying_an_unchanged_bundle_does_not_restart_the_process(account: Account) -> None:
    account.write("systemd", key="old", colour="red")
    with account.deployment() as deployment:
        account.up(deployment)
        (account.home / "running").write_text("as it was")
        account.apply(deployment)
    assert account.running == "as it was"
