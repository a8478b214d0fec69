"""What earlier versions deployed runs again from its recorded files.

`up` moves an agent of version 0.1 to the project of the file, and restarts one of version 0.2 once.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from deployed import Deployed, NodeConsole, Runner, by_engine, node_state, prepare_machine, put_on, sandbox, shell
from killed_script import killed_at
from levels import by_level, slow_proof
from live.manual import api_client, container, destroy
from live.node import Node, wait_for
from live.node_root import root
from paddock.base.secret import Secret
from paddock.channels.onboard import sent
from paddock.channels.ssh import SshGuest, scan_host_key
from paddock.core.open import deployments
from paddock.core.resolve import locate
from paddock.demo import Stage, environment
from paddock.kinds import load
from paddock.places.proxmox.api import tls
from paddock.places.proxmox.api.client import Client
from paddock.places.proxmox.node.reading import address
from paddock.show.reporter import Reporter
from pvebox.standins.stage import stage_folder

pytestmark = pytest.mark.live

VMID = 250  # of a host
# Owners, modes and content of a state, without its holder and without its mark, of which only the UUID stays.
STATE = """cd {state} && find . ! -name holder ! -name 'identity*' -printf '%P %U:%G %m %l\\n' | sort
find . -type f ! -name holder ! -name 'identity*' -exec sha256sum {{}} + | sort && sed -n 's/^id=//p' .paddock/identity
cat home/memory/facts"""
PROJECT = ("--set", "project=home")
MOVE = "  ~ move web to project home: rename its units, configuration and state mark  ("
# Kills a rename before these of its system calls that change something. It makes about 80, with an engine 120. Each
# run goes on where the one before was killed.
KILLS = range(10, 120, by_level(35, 4))


@contextmanager
def recorded_node(deployed: Deployed) -> Iterator[tuple[Node, Client]]:
    """Run a sandbox with real containers that is the recorded node, in pools. Its machines are empty."""
    with stage_folder() as folder:
        deployed.write_file(folder)
        with sandbox(folder, node_state(deployed.version)) as ready:
            node = Node(Stage(folder, environment(folder)))
            place = {"url": ready["url"], "ca": ready["ca"]}
            YAML(typ="safe").dump({"places": {"box": {"proxmox": place}}}, folder / "here.yaml")
            token = Secret((folder / "token.key").read_text().strip())
            pools = (("paddock", "101,104"), ("paddock-state", "100,103")) if deployed.version == "v1" else ()
            for pool, vmids in pools:
                assert root(node, "pveum", "pool", "add", pool).returncode == 0
                assert root(node, "pveum", "pool", "modify", pool, "--vms", vmids).returncode == 0
            yield node, Client(ready["url"], "pve", token, tls.context(ready["url"], Path(ready["ca"]), None))


def recorded_machine(node: Node, api: Client, deployed: Deployed, name: str, vmid: int) -> NodeConsole:
    """Put the recorded files on a machine of the node, and wait until it can be reached."""
    console = NodeConsole(node.stage.folder / "sandbox", vmid)
    if name == "box":
        prepare_machine(console, "docker", without_root=False)
    put_on(console, deployed, name)
    shell(console, "systemctl reset-failed ssh; systemctl restart ssh")  # it gave up before it had a host key
    wait_for(lambda: (found := address(api, vmid)) is not None and scan_host_key(found) is not None)
    return console


@slow_proof
@pytest.mark.parametrize(("name", "vmid"), [("web", 101), ("box", 104)])
def test_up_restarts_a_machine_of_version_0_2_once(name: str, vmid: int) -> None:
    deployed = Deployed("proxmox", "v2")
    with recorded_node(deployed) as (node, api):
        console = recorded_machine(node, api, deployed, name, vmid)
        files = ("-f", "paddock.yaml", "-f", "here.yaml", "--only", name)
        expect_restarted_once(node, console, files, name, f"/var/lib/paddock/{name}")


# Notes each moment in which the lease is free.
WATCH = """
rm -f /run/free; touch /run/watched
(while [ -e /run/watched ]; do flock --nonblock {state}/.paddock/lease echo free >>/run/free; sleep 0.02; done) \
    >/dev/null 2>&1 </dev/null &
"""
WATCHED = "rm /run/watched; cat /run/free 2>/dev/null || true"


def expect_restarted_once(node: Node, machine: Runner, files: tuple[str, ...], name: str, state: str) -> None:
    """Expect that `up` restarts the agent, and says why. Container and state stay, and the lease is never free."""
    wait_for(lambda: machine.run(["pgrep", "--full", "http.server"]).ok)
    containers = "/var/lib/docker/containers /var/lib/containers/storage/overlay-containers"
    look = f"{STATE.format(state=state)}\nls {containers}"
    before = shell(machine, f"{look} 2>&1 || true")
    assert "the gate code is 7421" in before
    assert "its configuration changed" in node.paddock("plan", *files).stdout
    shell(machine, WATCH.format(state=state))
    assert node.paddock("up", *files).stdout == f"{name}: up and working\n"
    assert shell(machine, WATCHED) == ""
    assert shell(machine, f"{look} 2>&1 || true") == before
    assert node.paddock("up", *files).stdout == f"{name}: nothing to do, and healthy\n"


@pytest.mark.parametrize(
    ("name", "vmid", "stopped"),
    [
        ("web", 101, False),
        pytest.param("web", 101, True, marks=slow_proof),
        pytest.param("box", 104, False, marks=slow_proof),
    ],
    ids=["systemd", "stopped", "docker"],
)
def test_up_moves_a_recorded_machine_with_its_state_to_a_project(name: str, vmid: int, *, stopped: bool) -> None:
    """A stopped machine is renamed after its start: what is in it cannot be seen before."""
    deployed, state = Deployed("proxmox"), STATE.format(state=f"/var/lib/paddock/{name}")
    with recorded_node(deployed) as (node, api):
        console = recorded_machine(node, api, deployed, name, vmid)
        before = shell(console, state)
        assert "the gate code is 7421" in before
        assert shell(console, "systemctl is-active 'paddock-*.service'") == "active\nactive\n"
        files = ("-f", "paddock.yaml", "-f", "here.yaml", "--only", name, *PROJECT)
        if stopped:
            api.task("POST", f"/nodes/pve/lxc/{vmid}/status/shutdown")
        else:
            assert f"move {name} to project home: rename its units" in node.paddock("plan", *files).stdout
        assert node.paddock("up", *files).stdout == f"{name}: up and working\n"
        assert shell(console, state) == before
        running = shell(
            console, "systemctl list-units --state active --plain --no-legend 'paddock-*' | cut -d ' ' -f 1"
        )
        part = "container" if name == "box" else "main"
        assert running.split() == [f"paddock-home_{name}.{each}.service" for each in sorted(("lease", part))]
        assert node.paddock("plan", *files).stdout == f"{name}: nothing to do\n"
        assert node.paddock("up", *files).stdout == f"{name}: nothing to do, and healthy\n"


@pytest.fixture
def host(node: Node) -> Iterator[SshGuest]:
    api = api_client(node)
    where = container(node, api, VMID, memory=3072, rootfs="local-lvm:10", hostname="host")
    try:
        yield SshGuest(where, where, key=node.stage.folder / "id_ed25519", host_keys=(scan_host_key(where) or "",))
    finally:
        destroy(api, VMID)


SHAPES = [
    ("systemd-host", "/var/lib/paddock/web"),
    *(
        pytest.param(shape, state, marks=slow_proof)
        for shape, state in (
            ("systemd-account", "/home/someone/.local/share/paddock/web/state"),
            ("docker-host", "/var/lib/paddock/web"),
            ("podman-host", "/var/lib/paddock/web"),
            ("podman-account", "/home/someone/.local/share/paddock/web/state"),
        )
    ),
]


def recorded_host(host: SshGuest, deployed: Deployed, folder: Path) -> tuple[str, ...]:
    """Put the recorded files on the host, and return the options of a verb that name its file."""
    prepare_machine(host, deployed.shape.partition("-")[0], without_root=deployed.without_root)
    put_on(host, deployed, "web")
    here = {"address": host.address, "host_key": host.host_keys[0], "key": str(host.key)}
    YAML(typ="safe").dump({"places": {"box": {"host": here}}}, folder / "here.yaml")
    return "-f", str(deployed.write_file(folder)), "-f", str(folder / "here.yaml")


@slow_proof
@pytest.mark.parametrize(("shape", "state"), SHAPES)
def test_up_restarts_an_agent_of_version_0_2_on_a_host_once(
    node: Node, host: SshGuest, tmp_path: Path, shape: str, state: str
) -> None:
    files = recorded_host(host, Deployed(shape, "v2"), tmp_path)
    expect_restarted_once(node, host, files, "web", state)


@pytest.mark.parametrize(("shape", "state"), SHAPES)
def test_up_moves_a_recorded_agent_on_a_host_to_a_project(
    node: Node, host: SshGuest, tmp_path: Path, shape: str, state: str
) -> None:
    deployed = Deployed(shape)
    engine = shape.partition("-")[0]
    files = (*recorded_host(host, deployed, tmp_path), *PROJECT)
    before = shell(host, STATE.format(state=state))
    assert "the gate code is 7421" in before
    assert MOVE in node.paddock("plan", *files).stdout
    for refused in (("down",), ("exec", "web"), ("logs", "web")):
        words = (*refused, *files, *(("--", "true") if refused[0] == "exec" else ()))
        assert "on its machine, web has no project" in node.paddock(*words, fails=True).stderr
    assert "project" in node.paddock("verify", "web", *files, fails=True).stdout
    assert node.paddock("status", *files).stdout
    for call in KILLS:
        cut_off_rename(tmp_path, call)
        assert shell(host, STATE.format(state=state)) == before
    assert node.paddock("up", *files).stdout == "web: up and working\n"
    assert shell(host, STATE.format(state=state)) == before
    units = "/home/someone/.config/systemd/user" if deployed.without_root else "/etc/systemd/system"
    found = shell(host, f"cd {units} && ls -d paddock-*.service").split()
    part = "main" if engine == "systemd" else "container"
    expected = {f"paddock-home_web.{part}.service", "paddock-home_web.lease.service"}
    assert set(found) - {"paddock-home_web.enter@.service"} == expected
    if engine != "systemd":
        listed = f"{by_engine(engine, without_root=deployed.without_root)} ps --all --format '{{{{.Names}}}}'"
        assert shell(host, listed).split() == ["paddock-home_web"]
    # A plan may also note that the engine's storage driver is slow.
    assert node.paddock("plan", *files).stdout.startswith("web: nothing to do\n")
    assert node.paddock("up", *files).stdout == "web: nothing to do, and healthy\n"
    assert shell(host, STATE.format(state=state)) == before


def cut_off_rename(folder: Path, call: int) -> None:
    """Run the step that renames the agent, as `up` does, and kill it before a system call that changes something."""
    loaded = load(folder / "paddock.yaml", folder / "here.yaml", sets=["project=home"])
    with deployments(loaded, [], Reporter()) as found:
        agent = locate(found[0])
        guest = agent.place.guest(agent.machine_want, agent.place.observe(agent.machine_want), {})
        assert guest
        argv, stdin = sent(agent.runtime.rename("web", mounted=False))
        # A shell outlives the program, and its exit code is not that of a lost connection.
        survived = ["sh", "-c", '"$@" || true', "sh", *killed_at(call, argv)]
        assert guest.run(survived, stdin=stdin, deadline=120).ok
