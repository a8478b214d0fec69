"""Where an agent may go: the node, a neighbour and the metadata service are closed to it, and its model answers."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from levels import slow_proof
from live.kernel_paths import ALLOWED, ATTACK, is_limited, is_open, led_elsewhere
from live.manual import api_client, container, destroy, reboot
from live.node import Node, wait_for
from live.test_lease import by_ssh

pytestmark = pytest.mark.live

VMID = 250  # of the neighbour
METADATA = "169.254.169.254"
TABLE = "paddock-home_hermes"

# Prints the error number of each connection, or null, in the form of JSON.
PROBE = """
import json, socket, sys
def tried(where):
    kind, host, port = where.split(",")
    udp = kind == "udp"
    try:
        family, _, _, _, address = socket.getaddrinfo(host, int(port), type=socket.SOCK_DGRAM if udp else 0)[0]
        with socket.socket(family, socket.SOCK_DGRAM if udp else socket.SOCK_STREAM) as tried:
            tried.settimeout(4)
            tried.connect(address)
            udp and tried.send(b"x")
    except OSError as error:
        return error.errno or "timed out"
print(json.dumps({where: tried(where) for where in sys.argv[1:]}))
"""
REFUSED = {1, 13, 113}  # EPERM for datagrams; EHOSTUNREACH, or EACCES for IPv6, for connections


@pytest.fixture(scope="module")
def neighbour(node: Node) -> Iterator[str]:
    """A machine on the same network, with an ssh server."""
    api = api_client(node)
    yield container(node, api, VMID)
    destroy(api, VMID)


@contextmanager
def listening(host: str) -> Iterator[int]:
    """Listen on an address of the node, as its API does, and yield the port."""
    with socket.create_server((host, 0)) as server:
        yield server.getsockname()[1]


def with_egress(node: Node, egress: Any) -> str:
    tree = node.file()
    tree["agents"]["hermes"]["network"] = {"egress": egress}
    return str(node.write("egress.yaml", tree))


def probe(node: Node, path: str, *where: str, agent: str = "hermes") -> dict[str, Any]:
    """Try connections as the agent."""
    said = node.paddock("exec", agent, "-f", path, "--", "python3", "-c", PROBE, *where).stdout
    return dict(json.loads(said))


def as_root(node: Node, address: str, *where: str) -> dict[str, Any]:
    """Try connections as root of the machine, whom nothing limits."""
    return dict(json.loads(node.shell(address, f"python3 - {' '.join(where)} <<'END'\n{PROBE}\nEND")))


def surroundings(node: Node, neighbour: str, api: int) -> list[str]:
    """What an agent must not reach: the node's API, the network, the metadata service, and other accounts' ports."""
    address = node.status()["address"]
    return [
        *(f"tcp,{node.gateway},{api}", f"udp,{node.gateway},{api}", f"tcp,::ffff:{node.gateway},{api}"),
        *(f"tcp,{neighbour},22", f"udp,{neighbour},22", f"tcp,{METADATA},80", f"udp,{METADATA},80"),
        *("tcp,127.0.0.1,22", f"tcp,{address},22", "tcp,::1,22"),
    ]


def test_an_agent_on_its_own_machine_reaches_its_model_but_not_its_surroundings(node: Node, neighbour: str) -> None:
    path = with_egress(node, "internet")
    # A machine that another test left would not be from the template with this agent's packages.
    node.paddock("down", "-f", path)
    node.paddock("up", "-f", path)
    try:
        address = node.status()["address"]
        with listening(node.gateway) as api:
            closed = surroundings(node, neighbour, api)
            reachable = [each for each in closed if METADATA not in each]
            assert set(as_root(node, address, *reachable).values()) == {None}, "the test would prove nothing"
            found = probe(node, path, *closed)
            assert set(found.values()) <= REFUSED, found
            assert node.paddock("ask", "hermes", "Say hello.", "-f", path).stdout.strip() == "ok: Say hello."
            # Its own port on loopback, and the name server.
            own = ("tcp,127.0.0.1,8642", f"udp,{node.gateway},53")
            assert set(probe(node, path, *own).values()) == {None}
            said = " ".join(node.paddock("verify", "-f", path).stdout.split())
            assert f"✓ egress.closed closed to the agent: {METADATA} port 80" in said
            assert f"✓ egress.open open to the agent: {node.gateway} port" in said
            assert node.paddock("plan", "-f", path).stdout == "hermes: nothing to do\n"

            # An open agent has no table.
            path = with_egress(node, "open")
            node.paddock("up", "-f", path)
            assert set(probe(node, path, *reachable).values()) == {None}
            left = f"nft list tables; systemctl list-units --all --plain --no-legend '{TABLE}.egress*'"
            assert node.shell(address, left) == ""
    finally:
        node.paddock("down", "-f", path)


@slow_proof
def test_the_table_outlives_flushes_and_boots_and_without_it_the_agent_does_not_run(node: Node, neighbour: str) -> None:
    path = with_egress(node, "internet")
    node.paddock("up", "-f", path)
    try:
        with listening(node.gateway) as api:
            closed = surroundings(node, neighbour, api)
            # The agent cannot remove its table. Root can, and it comes back.
            nft = ("exec", "hermes", "-f", path, "--", "/usr/sbin/nft", "delete", "table", "inet", TABLE)
            assert "Operation not permitted" in node.paddock(*nft, fails=True).stderr
            machine = node.status()["address"]
            assert node.shell(machine, "nft flush ruleset && nft list tables") == ""
            wait_for(lambda: probe(node, path, closed[0])[closed[0]] in REFUSED, seconds=20)

            reboot(api_client(node), int(node.status()["machine"]))
            machine = node.status()["address"]
            active = f"systemctl is-active {TABLE}.gateway || true"
            wait_for(lambda: node.shell(machine, active).strip() == "active")
            assert set(probe(node, path, *closed).values()) <= REFUSED

            node.shell(machine, f"chmod 600 $(readlink -f /usr/sbin/nft); systemctl restart {TABLE}.egress || true")
            assert node.shell(machine, active).strip() == "inactive"
            node.shell(machine, "chmod 755 $(readlink -f /usr/sbin/nft)")
            wait_for(lambda: node.shell(machine, active).strip() == "active")
            assert set(probe(node, path, *closed).values()) <= REFUSED
    finally:
        node.paddock("down", "-f", path)


def test_code_in_the_units_of_agents_gets_nowhere_by_the_kernel(node: Node, neighbour: str) -> None:
    tree = by_ssh(node, neighbour)
    for name, port in (("web", 8123), ("shop", 8124)):
        found = f"/var/lib/paddock/{name}/home/found"
        tree["agents"][name] = {
            "kind": "service",
            "place": "box",
            "command": ["python3", "-c", ATTACK, found, str(port)],
            "health": {"port": port},
            "user": {"name": name, "uid": 12000 + port},
        }
    del tree["agents"]["hermes"]

    def found_by(name: str) -> dict[str, Any]:
        return dict(json.loads(node.shell(neighbour, f"cat /var/lib/paddock/{name}/home/found")))

    try:
        with led_elsewhere(lambda script: node.shell(neighbour, script)):
            for egress, held in (("open", is_open), ([ALLOWED], is_limited)):
                for agent in tree["agents"].values():
                    agent["network"] = {"egress": egress}
                path = str(node.write("kernel.yaml", tree))
                node.paddock("up", "-f", path)
                for name in tree["agents"]:
                    assert held(found_by(name)), (egress, found_by(name))
                    said = node.paddock("exec", name, "-f", path, "--", "python3", "-c", ATTACK).stdout
                    assert held(json.loads(said)), (egress, said)
            assert node.paddock("verify", "-f", path).stdout.count("✓ egress.kernel") == 2
    finally:
        node.paddock("down", "-f", path)


@slow_proof
def test_code_in_the_unit_of_hermes_gets_nowhere_by_the_kernel(node: Node) -> None:
    unit, found = f"{TABLE}.gateway.service", "/var/lib/paddock/hermes/home/found"
    post = f"ExecStartPost=python3 /usr/local/lib/attack.py {found}"
    restart = f"systemctl daemon-reload; systemctl restart {unit}"
    try:
        for egress, held in (("open", is_open), ([ALLOWED], is_limited)):
            path = with_egress(node, egress)
            node.paddock("up", "-f", path)
            machine = node.status()["address"]
            with led_elsewhere(lambda script: node.shell(machine, script)):  # noqa: B023
                folder = f"/etc/systemd/system/{unit}.d"
                node.shell(machine, f"cat >/usr/local/lib/attack.py <<'END'\n{ATTACK}\nEND\nmkdir -p {folder}")
                node.shell(machine, f"printf '[Service]\\n{post}\\n' >{folder}/attack.conf; {restart}")
                try:
                    said = json.loads(node.shell(machine, f"cat {found}"))
                finally:
                    node.shell(machine, f"rm -r {folder} /usr/local/lib/attack.py; {restart}")
                assert held(said), (egress, said)
    finally:
        node.paddock("down", "-f", path)


def test_agents_on_one_host_do_not_reach_each_other(node: Node, neighbour: str) -> None:
    tree = by_ssh(node, neighbour)
    # The host is that of the test above, and has accounts of its agents.
    ports = {"web": (8123, 20123), "shop": (8124, 20124), "friend": (8125, 20125)}
    for name, (port, uid) in ports.items():
        tree["agents"][name] = {
            "kind": "service",
            "place": "box",
            "command": ["python3", "-m", "http.server", str(port), "--bind", "127.0.0.1"],
            "health": {"port": port},
            "user": {"name": name, "uid": uid},
        }
    del tree["agents"]["hermes"]
    tree["agents"]["web"]["network"] = {"egress": "internet"}
    tree["agents"]["shop"]["network"] = {"egress": ["localhost:8123"]}
    path = str(node.write("two.yaml", tree))
    node.paddock("up", "-f", path)
    try:
        with listening(node.gateway) as api:
            around = [f"tcp,{node.gateway},{api}", f"tcp,{neighbour},22", f"udp,{METADATA},80"]
            web, shop, friend = (f"tcp,127.0.0.1,{port}" for port, _ in ports.values())
            reached = {"web": {web}, "shop": {shop, web}, "friend": {web, shop, friend, *around}}
            for name, wanted in reached.items():
                found = probe(node, path, web, shop, friend, *around, agent=name)
                assert {where for where, error in found.items() if error is None} == wanted, (name, found)
                assert set(found.values()) <= {None, *REFUSED}, (name, found)
        said = " ".join(node.paddock("verify", "-f", path).stdout.split())
        assert said.count("✓ egress.closed closed to the agent") == 2
        assert "· egress.closed open: the agent may connect to every address" in said
        node.paddock("down", "-f", path)
        assert node.shell(neighbour, "nft list tables") == ""
    finally:
        node.paddock("down", "-f", path)
