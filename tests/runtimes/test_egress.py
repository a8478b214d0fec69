"""The rules for an agent's connections, loaded into a network of their own, and tried as several accounts."""

from __future__ import annotations

import errno
import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from paddock.onboard.egress.ruleset import not_internet, ruleset
from paddock.onboard.egress.storage import disks, mounted, reachable
from paddock.onboard.egress.surroundings import Names, connected, may_be_named, resolvers

AGENT, OTHER = 10000, 10001
PORTS = {"own": (AGENT, 9000), "neighbour": (OTHER, 9001), "named": (OTHER, 9002)}

in_a_network = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("nft") is None, reason="needs root and nft, to load rules into a network"
)

# Runs in a new network namespace: loads the rules on stdin, listens as several accounts, and sends as the agent.
LAB = """
import json, os, socket, subprocess, sys
question = json.load(sys.stdin)
for line in question["setup"]:
    subprocess.run(line.split(), check=True)
subprocess.run(["nft", "--file", "-"], input=question["rules"].encode(), check=True)
MPTCP = 262
for uid, port in question["ports"]:
    ready, told = os.pipe()
    if os.fork() == 0:
        os.setuid(uid)
        server = socket.socket(socket.AF_INET6, socket.SOCK_STREAM, MPTCP if port == question["multipath"] else 0)
        server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        server.bind(("::", port))
        server.listen()
        os.write(told, b"x")
        while True:
            server.accept()[0].close()
    os.read(ready, 1)
def tried(kind, host, port):
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        protocol = {"mptcp": MPTCP, "smc": 256}.get(kind, 0)
        with socket.socket(family, socket.SOCK_DGRAM if kind == "udp" else socket.SOCK_STREAM, protocol) as trial:
            trial.settimeout(5)
            trial.connect((host, port))
            trial.send(b"x")
    except OSError as error:
        return error.errno or "timed out"
sys.stdout.flush()
reader, writer = os.pipe()
child = os.fork()
if child == 0:
    os.setuid(question["uid"])
    os.write(writer, json.dumps([tried(*each) for each in question["tries"]]).encode())
    os._exit(0)
os.waitpid(child, 0)
os.close(writer)
print(os.read(reader, 1 << 16).decode())
os.kill(0, 9)
"""
# A network in which every address has a route, and nobody answers.
SETUP = [
    "ip link set lo up",
    "ip link add card type veth peer name far",
    "ip link set far up",
    "ip address add 198.51.100.9/24 dev card",
    "ip address add 2a00:1:2:3::9/64 dev card nodad",
    "ip link set card up",
    "ip route add default via 198.51.100.1",
    "ip -6 route add default dev card",
]


def sent(rules: str, tries: list[tuple[str, str, int]], uid: int = AGENT, multipath: int = 0) -> list[int | None]:
    """Return the error number of each try, or None if it was sent. The port ``multipath`` is one of MPTCP."""
    ports = list(PORTS.values())
    question = {"setup": SETUP, "rules": rules, "ports": ports, "uid": uid, "tries": tries, "multipath": multipath}
    done = subprocess.run(
        ["setsid", "unshare", "--net", sys.executable, "-c", LAB],
        input=json.dumps(question),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout, done.stderr
    return list(json.loads(done.stdout.splitlines()[-1]))


def datagrams(rules: str, hosts: list[str], uid: int = AGENT) -> dict[str, int | None]:
    return dict(zip(hosts, sent(rules, [("udp", host, 9) for host in hosts], uid), strict=True))


PRIVATE = [
    *("10.1.2.3", "172.31.0.1", "192.168.1.10", "100.100.1.1", "169.254.169.254", "224.0.0.251", "255.255.255.255"),
    *("fd00::1", "2002:a00:1::1", "64:ff9b::10.1.2.3", "64:ff9b::169.254.169.254", "2001:db8::1"),
]
PUBLIC = ["1.1.1.1", "93.184.215.14", "2606:4700::1111", "64:ff9b::1.1.1.1"]
NEAR = ["198.51.100.7", "2a00:1:2:3::7", "203.0.114.5"]


@in_a_network
def test_the_internet_has_no_private_addresses_no_own_networks_and_no_neighbours() -> None:
    near = ["198.51.100.0/24", "2a00:1:2:3::/64", "203.0.114.5"]
    rules = ruleset("paddock-a.b", AGENT, [("10.1.2.3", 9)], near, [])
    found = datagrams(rules, [*PRIVATE, *PUBLIC, *NEAR, "::ffff:192.168.1.10"])
    blocked = {host for host, error in found.items() if error in (errno.EPERM, errno.EACCES)}
    assert blocked == {*PRIVATE, *NEAR, "::ffff:192.168.1.10"} - {"10.1.2.3"}, found
    assert {found[host] for host in (*PUBLIC, "10.1.2.3")} == {None}
    others = datagrams(rules, ["192.168.1.10", "169.254.169.254"], OTHER)
    assert set(others.values()) == {None}, "other accounts are not limited"


@in_a_network
def test_a_list_has_only_its_entries_and_only_their_ports() -> None:
    rules = ruleset("paddock-a", AGENT, [("10.1.2.0/24", 9), ("2606:4700::/32", None), ("1.1.1.1", 53)], None, [])
    found = datagrams(rules, ["10.1.2.3", "10.1.3.3", "2606:4700::1111", "1.1.1.1", "2a00:1:2:3::7", "93.184.215.14"])
    assert [host for host, error in found.items() if error is None] == ["10.1.2.3", "2606:4700::1111"], found
    assert sent(rules, [("udp", "1.1.1.1", 53), ("udp", "10.1.2.3", 10)]) == [None, errno.EPERM]


@in_a_network
@pytest.mark.parametrize("denied", [[], None], ids=["internet", "list"])
def test_on_loopback_an_agent_reaches_its_own_ports_and_named_ones(denied: list[str] | None) -> None:
    rules = ruleset("paddock-a", AGENT, [("127.0.0.1", PORTS["named"][1])], denied, [])
    for host in ("127.0.0.1", "::1", "198.51.100.9", "127.1.2.3"):
        own, neighbour = sent(rules, [("tcp", host, PORTS[name][1]) for name in ("own", "neighbour")])
        assert own is None, host
        assert neighbour in (errno.EHOSTUNREACH, errno.EACCES), host
    assert sent(rules, [("tcp", "127.0.0.1", PORTS["named"][1]), ("udp", "127.0.0.1", 9001)]) == [None, errno.EPERM]
    assert sent(rules, [("tcp", "127.0.0.1", port) for _, port in PORTS.values()], OTHER) == [None] * 3


@in_a_network
def test_two_agents_with_tables_do_not_reach_each_other_and_keep_their_own_ports() -> None:
    rules = ruleset("paddock-a", AGENT, [], [], []) + ruleset("paddock-b", OTHER, [], [], [])
    for uid, own, others in ((AGENT, 9000, 9001), (OTHER, 9001, 9000)):
        assert sent(rules, [("tcp", "127.0.0.1", own), ("tcp", "127.0.0.1", others)], uid) == [None, errno.EHOSTUNREACH]


@in_a_network
@pytest.mark.skipif(not Path("/proc/sys/net/mptcp").exists(), reason="this kernel has no MPTCP")
def test_connections_over_several_paths_are_limited_too() -> None:
    rules = ruleset("paddock-a", AGENT, [], [], [])
    tries = [("mptcp", "127.0.0.1", 9000), ("mptcp", "127.0.0.1", 9001), ("mptcp", "192.168.1.10", 9)]
    assert sent(rules, tries, multipath=9000) == [None, errno.EHOSTUNREACH, errno.EHOSTUNREACH]
    assert (
        sent(rules, [("tcp", "127.0.0.1", 9001), ("mptcp", "127.0.0.1", 9001)], multipath=9001)
        == [errno.EHOSTUNREACH] * 2
    )


# Runs in a new network namespace, with another one as the rest of the world. The kernel opens the second path of an
# MPTCP connection, to an address that the server tells it: that connection has no owner until it is established. SMC
# and the clients of network filesystems have such connections too, and need modules that not every kernel has.
WORLD = """
import atexit, json, os, socket, subprocess, sys, time
atexit.register(os.kill, 0, 9)
question = json.load(sys.stdin)
def run(line):
    return subprocess.run(line.split(), check=True, capture_output=True, text=True).stdout
for line in question["setup"]:
    run(line)
subprocess.run(["nft", "--file", "-"], input=question["rules"].encode(), check=True)
SERVE = '''
import socket, sys
family, kind = (socket.SOCK_STREAM, 262) if sys.argv[1] == "paths" else (socket.SOCK_DGRAM, 0)
server = socket.socket(socket.AF_INET, family, kind)
server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
server.bind(("0.0.0.0", 9000))
if kind:
    server.listen()
print(flush=True)
while kind:
    client = server.accept()[0]
    while data := client.recv(1):
        client.send(data)
while True:
    data, sender = server.recvfrom(9)
    server.sendto(data, sender)
'''
for what in ("paths", "datagrams"):
    there = subprocess.Popen(
        ["ip", "netns", "exec", "far", sys.executable, "-c", SERVE, what], stdout=subprocess.PIPE
    )
    there.stdout.readline()
def count(name):
    for line in run("nstat -asz " + name).splitlines():
        if line.startswith(name):
            return int(line.split()[1])
found = {}
for uid in question["users"]:
    reader, writer = os.pipe()
    before = count("MPTcpExtMPJoinSynAckRx")
    if os.fork() == 0:
        os.setuid(uid)
        client = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)
        client.settimeout(5)
        try:
            client.connect(("198.51.100.1", 9000))
            for _ in range(10):
                client.send(b"x")
                client.recv(1)
                time.sleep(0.03)
            os.write(writer, b"y")
        except OSError as error:
            os.write(writer, b"n")
        os._exit(0)
    os.wait()
    found[uid] = [os.read(reader, 1) == b"y", count("MPTcpExtMPJoinSynAckRx") - before]
tunnelled = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
tunnelled.settimeout(5)
tunnelled.sendto(b"x", ("172.30.0.1", 9000))
found["tunnel"] = tunnelled.recv(9) == b"x"
print(json.dumps(found), flush=True)
"""
FAR = "ip -n far"
TWO_NETWORKS = [
    *("mount -t tmpfs none /run", "mkdir /run/netns", "ip netns add far", "ip link set lo up"),
    "ip link add card type veth peer name far netns far",
    *("ip address add 198.51.100.9/24 dev card", "ip link set card up", "ip route add 10.1.1.0/24 dev card"),
    *(f"{FAR} link set lo up", f"{FAR} link set far up", f"{FAR} address add 198.51.100.1/24 dev far"),
    f"{FAR} address add 10.1.1.1/24 dev far",
    # A tunnel: the kernel sends its packets, and they have no owner if the packets inside have none.
    "ip link add tunnel type vxlan id 7 dstport 4789 remote 198.51.100.1 dev card",
    f"{FAR} link add tunnel type vxlan id 7 dstport 4789 remote 198.51.100.9 dev far",
    *("ip address add 172.30.0.9/24 dev tunnel", "ip link set tunnel up"),
    *(f"{FAR} address add 172.30.0.1/24 dev tunnel", f"{FAR} link set tunnel up"),
    # The server tells of a second address, and this machine uses what it is told.
    *("ip mptcp limits set add_addr_accepted 2 subflows 4", "ip netns exec far ip mptcp limits set subflows 4"),
    "ip netns exec far ip mptcp endpoint add 10.1.1.1 dev far signal",
]
_has_paths = Path("/proc/sys/net/mptcp").exists()
with_kernel_connections = pytest.mark.skipif(not _has_paths, reason="this kernel has no MPTCP")


def connected_by_the_kernel(rules: str, *users: int) -> dict[str, Any]:
    """Return for each user whether it reached the far server, and how many further connections the kernel got.

    The value for ``tunnel`` is whether a datagram of root went through a tunnel and back.
    """
    question = {"setup": TWO_NETWORKS, "rules": rules, "users": users}
    argv = ["setsid", "unshare", "--net", "--mount", sys.executable, "-c", WORLD]
    done = subprocess.run(argv, input=json.dumps(question), capture_output=True, text=True, timeout=60)
    assert done.stdout, done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


ROOT = 0
SERVER = ("198.51.100.1", 9000)


@in_a_network
@with_kernel_connections
def test_the_kernel_opens_no_connection_for_an_agent_to_where_it_must_not_go() -> None:
    assert connected_by_the_kernel("", AGENT) == {str(AGENT): [True, 1], "tunnel": True}, "the test would prove nothing"
    rules = ruleset("paddock-a", AGENT, [SERVER], None, [])
    assert connected_by_the_kernel(rules, AGENT, ROOT) == {str(AGENT): [True, 0], str(ROOT): [True, 0], "tunnel": True}


@in_a_network
@with_kernel_connections
def test_with_two_agents_the_kernel_opens_no_connection_for_either() -> None:
    rules = ruleset("paddock-a", AGENT, [SERVER], None, []) + ruleset("paddock-b", OTHER, [SERVER], [], [])
    found = connected_by_the_kernel(rules, AGENT, OTHER)
    assert found == {str(AGENT): [True, 0], str(OTHER): [True, 0], "tunnel": True}


@in_a_network
@with_kernel_connections
@pytest.mark.parametrize(
    ("open_to_the_kernel", "connections"),
    [(("10.1.1.1", None), 1), (("10.1.0.0/16", "6789, 9000-9100"), 1), (("10.1.0.0/16", "3300"), 0)],
)
def test_the_kernel_reaches_the_servers_of_filesystems(
    open_to_the_kernel: tuple[str, str | None], connections: int
) -> None:
    """The same connection stands for that of a filesystem's client."""
    rules = ruleset("paddock-a", AGENT, [SERVER], None, [open_to_the_kernel])
    assert connected_by_the_kernel(rules, ROOT) == {str(ROOT): [True, connections], "tunnel": True}


@in_a_network
def test_an_agent_reaches_nothing_by_smc() -> None:
    try:
        socket.socket(socket.AF_INET, socket.SOCK_STREAM, 256).close()
    except OSError:
        pytest.skip("this kernel has no SMC")
    tries = [("smc", host, 9) for host in ("192.168.1.10", "198.51.100.9", "127.0.0.1", "::1")]
    assert set(sent(ruleset("paddock-a", AGENT, [], None, []), tries)) <= {errno.EHOSTUNREACH, errno.EACCES}


def test_servers_of_filesystems_are_those_that_are_mounted_or_may_be() -> None:
    table = """\
# nas:/comment /mnt nfs defaults 0 0
192.168.1.5:/export /mnt/a nfs4 rw,vers=4.2,clientaddr=192.168.1.9,addr=192.168.1.5 0 0
nas.lan:/export /mnt/b nfs rw,mountaddr=unspecified,addr=fd00::5 0 0
[fd00::6]:/export /mnt/c nfs rw 0 0
//files/share /mnt/d cifs rw,username=x,addr=192.168.1.6 0 0
192.168.2.1:6789,192.168.2.2:6789:/ /mnt/e ceph rw,name=admin 0 0
admin@0f0f.cephfs=/ /mnt/f ceph rw,mon_addr=192.168.2.3:6789/[fd00::7]:3300 0 0
10.9.9.9:/ /home/agent/mnt fuse.nfs rw,addr=10.9.9.8 0 0
/dev/sda1 / ext4 rw,addr=10.9.9.7 0 1
short nfs
"""
    assert set(mounted(table)) == {
        *(("192.168.1.5", False), ("nas.lan", False), ("fd00::5", False), ("fd00::6", False)),
        *(("files", False), ("192.168.1.6", False)),
        *(("192.168.2.1", True), ("192.168.2.2", True), ("192.168.2.3", True), ("fd00::7", True)),
    }


def test_servers_of_disks_are_those_of_ceph_and_of_nvme_over_tcp() -> None:
    rbd = ["10.0.0.1:6789,[fd00::1]:6789 name=admin,key=client.admin rbd image -\\n"]
    nvme = ["0000:3b:00.0\\n", "traddr=10.0.0.5,trsvcid=4420,src_addr=10.0.0.9\\n", "traddr=nn-0x2:pn-0x3\\n"]
    assert list(disks(rbd, nvme)) == [("10.0.0.1", True), ("fd00::1", True), ("10.0.0.5", False)]


def test_the_cluster_of_ceph_is_open_on_its_own_ports_only() -> None:
    assert list(reachable("10.1.2.3", ceph=False)) == [("10.1.2.3", None)]
    ports = "3300, 6789, 6800-7568"
    assert list(reachable("10.1.2.3", ceph=True)) == [("10.1.2.3", None), ("10.1.0.0/16", ports)]
    assert list(reachable("fd00:1:2:3::4", ceph=True)) == [("fd00:1:2:3::4", None), ("fd00:1:2::/48", ports)]


def test_networks_that_are_not_the_internet_do_not_overlap() -> None:
    four, six = not_internet(["10.0.0.0/24", "2001:db8:1::/48", "1.2.3.4"])
    assert "10.0.0.0/24" not in four
    assert "1.2.3.4/32" in four
    assert "2001:db8:1::/48" not in six


def test_name_servers_are_those_of_resolv_conf() -> None:
    lines = ["# nameserver 9.9.9.9", "search lan", "nameserver 192.168.1.1", "nameserver fe80::1%eth0"]
    assert resolvers("\n".join([*lines, "nameserver", "nameserver x"])) == ["192.168.1.1", "fe80::1"]


ROUTES_4 = """\
Iface	Destination	Gateway 	Flags	RefCnt	Use	Metric	Mask		MTU	Window	IRTT
eth0	00000000	01A6C20A	0003	0	0	0	00000000	0	0	0
eth0	00A6C20A	00000000	0001	0	0	0	00FFFFFF	0	0	0
wg0	00000000	00000000	0001	0	0	0	00000080	0	0	0
eth0	0A00000A	01A6C20A	0007	0	0	0	FFFFFFFF	0	0	0
"""
_ZEROS = "0" * 32
ROUTES_6 = f"""\
20010db80001{"0" * 20} 40 {_ZEROS} 00 {_ZEROS} 00000100 00000001 00000000 00000001     eth0
{_ZEROS} 00 {_ZEROS} 00 fe80{"0" * 27}1 00000100 00000001 00000000 00000003     eth0
{"0" * 31}1 80 {_ZEROS} 00 {_ZEROS} 00000000 00000004 00000000 80200001       lo
"""


def test_networks_around_the_machine_are_those_without_a_gateway() -> None:
    assert connected(ROUTES_4, ROUTES_6) == ["10.194.166.0/24", "2001:db8:1::/64"]
    assert connected("", "") == []


@pytest.mark.parametrize(
    ("name", "address", "may"),
    [
        ("models.lan", "192.168.1.22", True),
        ("api.example.com", "93.184.215.14", True),
        ("api.example.com", "127.0.0.1", False),
        ("api.example.com", "169.254.169.254", False),
        ("api.example.com", "fe80::1", False),
        ("api.example.com", "::ffff:10.0.0.1", False),
        ("api.example.com", "224.0.0.1", False),
        ("api.example.com", "0.0.0.0", False),
        ("localhost", "127.0.0.1", True),
        ("localhost", "10.0.0.1", False),
    ],
)
def test_a_name_does_not_open_addresses_of_the_machine_itself(name: str, address: str, may: bool) -> None:
    assert may_be_named(name, address) is may


def test_an_address_of_a_name_is_kept_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: dict[str, Any] = {"addresses": {"192.0.2.1"}, "now": 100.0}
    monkeypatch.setattr("paddock.onboard.egress.surroundings.resolve", lambda _: answers["addresses"])
    monkeypatch.setattr("time.monotonic", lambda: answers["now"])
    names = Names()
    names.ask(["a.example"])
    answers.update(addresses={"192.0.2.2"}, now=1000.0)
    names.ask(["a.example"])
    assert names.addresses("a.example") == ["192.0.2.1", "192.0.2.2"]
    answers.update(addresses=set(), now=4000.0)
    names.ask(["a.example"])
    assert names.addresses("a.example") == ["192.0.2.2"]
    assert names.addresses("b.example") == []
