"""When the process that holds the lease dies, the lease stays taken until the agent, too, has ended.

A second unit stands for a second machine: it has the text of the real lease unit and retries every 0.2 s. The agent
takes some time to end, and has a child process in another session that ignores signals.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from levels import slow_proof
from live.conftest import node
from live.engine_host import ENGINE_DISKS, Host
from live.images import base_root
from live.manual import api_client, container, destroy
from live.node import Node, wait_for
from live.test_native import ACCOUNT
from paddock.channels.ssh import scan_host_key
from paddock.file.agent_id import AgentId
from paddock.kinds.service import ServiceSpec
from paddock.runtimes.systemd.runtime import Systemd

__all__ = ["node"]
pytestmark = pytest.mark.live

VMID = 241


def _unit(part: str) -> str:
    spec = ServiceSpec.model_validate({"kind": "service", "place": "here", "command": ["true"]})
    return Systemd(AgentId("home", "web"), spec).unit(part).removesuffix(".service")


LEASE = _unit("lease")
SHORT, LONG = 8, 60  # seconds that the agent takes to end

_AGENT = """
import http.server, os, signal, sys, threading, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        while True:
            time.sleep(60)
    os._exit(0)
signal.signal(signal.SIGTERM, lambda *_: threading.Timer(float(sys.argv[1]), os._exit, [0]).start())
http.server.test(http.server.SimpleHTTPRequestHandler, http.server.ThreadingHTTPServer, port=8123, bind="127.0.0.1")
"""

# Runs on the machine: runs a command against the lease, then measures after how many seconds the agent's last process
# ended and the second unit got the lease. Prints one JSON object.
_WATCH = """
import json, os, select, subprocess, sys, time
uid, systemctl, cause, seconds = int(sys.argv[1]), sys.argv[2].split(), sys.argv[3], float(sys.argv[4])
processes = []
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        if os.stat(f"/proc/{pid}").st_uid == uid and b"http.server" in open(f"/proc/{pid}/cmdline", "rb").read():
            processes.append(os.pidfd_open(int(pid)))
    except (FileNotFoundError, ProcessLookupError):
        pass  # it has just ended
gone = stolen = None
begin = time.monotonic()
subprocess.run(cause, shell=True, check=True)
while time.monotonic() - begin < seconds and (gone is None or time.monotonic() - begin - gone < 8):
    ended = len(select.select(processes, [], [], 0)[0]) == len(processes)
    got = subprocess.run([*systemctl, "is-active", "--quiet", "second-machine"]).returncode == 0
    now = round(time.monotonic() - begin, 1)
    stolen = now if got and stolen is None else stolen
    gone = now if ended and gone is None else gone
    time.sleep(0.1)
print(json.dumps({"processes": len(processes), "gone": gone, "stolen": stolen}))
"""


@dataclass
class Watched:
    """A host whose agent takes some time to end, and the unit that stands for the second machine."""

    host: Host
    drain: float
    units: str = "/run/systemd/system"
    systemctl: str = "systemctl"
    uid: int = 12000

    @property
    def unit(self) -> str:
        return _unit("main" if self.host.engine == "systemd" else "container")

    def brings_up(self) -> None:
        self.host.agent["command"] = ["python3", "-c", _AGENT, str(self.drain)]
        self.host.up()
        etc = "/etc/paddock/home_web" if self.host.account == "root" else "/home/someone/.config/paddock/home_web"
        # The timeout that Hermes has: it drains for 60 s, and its stop may take 90 s.
        self.host.root(
            f"set -e; mkdir -p {self.units}/{self.unit}.service.d\n"
            f"printf '[Service]\\nTimeoutStopSec=105\\n' >{self.units}/{self.unit}.service.d/test.conf\n"
            f"sed -i 's/^STOP_SECONDS=.*/STOP_SECONDS=\"90\"/' {etc}/current/bundle.env\n"
            f"sed -e '/^Wants=/d' -e 's/^RestartSec=.*/RestartSec=0.2/' {etc}/current/units/{LEASE}.service"
            f" >{self.units}/second-machine.service\n"
            f"{self.systemctl} daemon-reload && {self.systemctl} start --no-block second-machine"
        )
        wait_for(lambda: "is held by" in self.log("second-machine"))

    def goes(self) -> None:
        self.host.root(
            f"{self.systemctl} stop second-machine; rm -rf {self.units}/second-machine.service"
            f" {self.units}/{self.unit}.service.d; {self.systemctl} daemon-reload"
        )
        self.host.paddock("down")

    def watch(self, cause: str) -> dict[str, float | None]:
        """Run a command against the lease and return the measured times."""
        words = ["python3", "-c", _WATCH, str(self.uid), self.systemctl, cause, str(self.drain + 45)]
        # Measured in the background, because an ssh command has a shorter timeout.
        self.host.root(f"rm -f /run/seen; systemd-run --quiet sh -c {shlex.quote(f'{shlex.join(words)} >/run/seen')}")
        wait_for(lambda: self.host.root("cat /run/seen 2>/dev/null || true") != "", self.drain + 60)
        seen = dict(json.loads(self.host.root("cat /run/seen")))
        print(f"{self.host.engine}, a drain of {self.drain} s, {cause.split()[0]}: {seen}")
        assert seen["processes"] == 2
        return seen

    def holder_dies(self, signal: str) -> dict[str, float | None]:
        holder = f"$({self.systemctl} show --property MainPID --value {LEASE})"
        # The lease must also survive a reload and a re-execution of systemd.
        return self.watch(f"kill -{signal} {holder}; {self.systemctl} daemon-reload; {self.systemctl} daemon-reexec")

    def state_of(self, unit: str) -> str:
        return self.host.root(f"{self.systemctl} is-active {unit} || true")

    def log(self, unit: str) -> str:
        of_account = "_SYSTEMD_USER_UNIT" if self.host.account != "root" else "_SYSTEMD_UNIT"
        return self.host.root(f"journalctl --quiet --output cat --lines 20 {of_account}={unit}.service")

    def shows_it(self, signal: str = "KILL") -> None:
        """Assert that the lease is not free before the agent has ended, when its holder dies and when it is stopped."""
        seen = self.holder_dies(signal)
        assert seen["stolen"] is None, (
            f"a second machine got the lease {seen['stolen']} s after its holder died;"
            f" the agent's last process ended after {seen['gone']} s"
        )
        assert seen["gone"] is not None
        assert seen["gone"] >= self.drain - 1
        wait_for(lambda: self.state_of(self.unit) == self.state_of(LEASE) == "active")
        assert self.state_of("second-machine") != "active"
        wait_for(lambda: ":8123" in self.host.root("ss -Hltn"))  # only then does the agent handle signals

        seen = self.watch(f"{self.systemctl} stop --no-block {LEASE}")
        assert seen["gone"] is not None
        assert seen["stolen"] is not None, "the second machine did not get a released lease"
        assert self.drain - 1 <= seen["gone"] <= seen["stolen"] <= seen["gone"] + 5


@pytest.fixture(scope="module")
def machine(node: Node) -> Iterator[Host]:
    api = api_client(node)
    address = container(node, api, VMID, memory=2048, rootfs="local-lvm:10", mp0=ENGINE_DISKS["mp0"])
    try:
        yield Host(node, address, scan_host_key(address) or "")
    finally:
        destroy(api, VMID)


@pytest.fixture(scope="module")
def docker_base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return base_root(tmp_path_factory.mktemp("roots") / "base.tar.gz")


@slow_proof  # tests/runtimes/test_lease_script.py has the script alone, with a manager that keeps its lock
@pytest.mark.parametrize(("drain", "signal"), [(SHORT, "KILL"), (SHORT, "TERM"), (LONG, "KILL")])
def test_no_second_machine_gets_the_lease_while_an_agent_under_systemd_ends(
    machine: Host, drain: float, signal: str
) -> None:
    machine.becomes("web", runtime="systemd")
    watched = Watched(machine, drain)
    watched.brings_up()
    try:
        watched.shows_it(signal)
    finally:
        watched.goes()


@slow_proof
def test_no_second_machine_gets_the_lease_while_a_docker_container_ends(machine: Host, docker_base: Path) -> None:
    """The container takes much longer to end than Docker's own limit of 10 s."""
    base = {"base": "debian:12", "archive": str(docker_base), "install": True}
    machine.becomes("web", runtime="docker", container=base)
    watched = Watched(machine, LONG)
    watched.brings_up()
    try:
        watched.shows_it()
    finally:
        watched.goes()


# SIGKILL, because a regular stop of the engine would end its containers.
_ENGINE_DIES = f"""
systemctl mask --quiet --runtime docker.service docker.socket
kill -9 $(pidof dockerd); systemctl stop docker.socket docker.service
sleep 1; systemctl stop --no-block {LEASE}
"""


@slow_proof
def test_no_second_machine_gets_the_lease_while_a_container_runs_without_its_engine(
    machine: Host, docker_base: Path
) -> None:
    base = {"base": "debian:12", "archive": str(docker_base), "install": True}
    machine.becomes("web", runtime="docker", container=base)
    watched = Watched(machine, SHORT)
    watched.brings_up()
    try:
        seen = watched.watch(_ENGINE_DIES)
        assert seen["gone"] is not None, (
            f"a second machine got the lease {seen['stolen']} s after the engine had died, and the agent still runs"
        )
        assert seen["stolen"] is not None
        assert seen["gone"] <= seen["stolen"]
    finally:
        machine.root("systemctl unmask --runtime docker.service docker.socket && systemctl start docker")
        watched.goes()


@slow_proof
def test_no_second_machine_gets_the_lease_while_an_agent_without_root_ends(machine: Host) -> None:
    machine.root(ACCOUNT)
    uid = machine.root("id -u someone")
    host = replace(machine, account="someone")
    host.becomes("web", runtime="systemd")
    del host.agent["user"]  # the agent runs in the account
    become = f"setpriv --reuid {uid} --regid {uid} --init-groups env HOME=/home/someone XDG_RUNTIME_DIR=/run/user/{uid}"
    watched = Watched(host, SHORT, "/home/someone/.config/systemd/user", f"{become} systemctl --user", int(uid))
    watched.brings_up()
    try:
        watched.shows_it()
    finally:
        watched.goes()


# The lease script of an earlier version, whose lock ended with its process.
_EARLIER = """#!/bin/sh
exec 9>>"$1/.paddock/lease"
flock --nonblock 9 || exit 75
systemd-notify --ready
exec sleep infinity
"""


@slow_proof
def test_a_lease_of_an_earlier_version_is_restarted_exactly_once(machine: Host) -> None:
    kept = f"systemctl show --property NFileDescriptorStore --value {LEASE}"
    holder = f"systemctl show --property MainPID --value {LEASE}"
    machine.becomes("web", runtime="systemd")
    machine.up()
    machine.root(
        f"cat >/etc/paddock/home_web/current/lease <<'END'\n{_EARLIER}END\n"
        f"systemctl stop {LEASE}; systemctl start {LEASE}"
    )
    assert machine.root(kept) == "0"
    before = machine.root(holder)
    machine.up()
    assert machine.root(holder) == before, "the lease was restarted although nothing had changed"

    machine.agent["environment"] = {"COLOUR": "red"}
    machine.up()
    assert machine.root(kept) == "1", "the lock still ends with the process that holds it"
    between = machine.root(holder)
    assert between != before

    machine.agent["environment"] = {"COLOUR": "blue"}
    machine.up()
    assert machine.root(holder) == between
    machine.paddock("down")
