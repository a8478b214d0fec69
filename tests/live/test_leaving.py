"""No process of the agent runs outside its units, and none is left when the agent has stopped.

The agent is an attacker. It opens the memory of every process of its account that it can find: with that, it could put
its own code into it. A process in another unit would then let it out of its confinement.
"""

from __future__ import annotations

import errno
import json
import time
from collections.abc import Iterator

import pytest
from ruamel.yaml import YAML

from live.engine_host import Host, host, machine, web
from live.manual import api_client, container, destroy
from live.node import Node, wait_for
from live.test_lease import by_ssh

__all__ = ["host", "machine", "web"]
pytestmark = pytest.mark.live

VMID = 261
UID = 12000
HOME = "/var/lib/paddock/web/home"
# Writes a line for each process of its account in another unit whose memory it could open for writing.
ATTACK = """
import http.server, os, threading
threading.Thread(target=http.server.test, args=(http.server.SimpleHTTPRequestHandler,),
                 kwargs={"port": 8123, "bind": "127.0.0.1"}, daemon=True).start()
seen = set()
while True:
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        try:
            if pid in seen or os.stat(f"/proc/{pid}").st_uid != os.getuid():
                continue
            with open(f"/proc/{pid}/cgroup") as file, open(f"/proc/{pid}/comm") as name:
                unit, comm = file.read().strip().rpartition("/")[2], name.read().strip()
            with open(f"/proc/{pid}/mem", "r+b", buffering=0):
                seen.add(pid)
            with open("opened", "a") as file:
                print(unit, comm, file=file)
        except OSError:
            pass
"""
# A process that has left, however it did: it is in the ssh session of root, writes to the state, and ignores signals.
LEFT = f"""
setsid setpriv --reuid {UID} --regid {UID} --clear-groups sh -c '
trap "" TERM HUP INT; cd {HOME}; while :; do date +%s.%N >still; sleep 0.1; done' >/dev/null 2>&1 </dev/null &
setsid setpriv --reuid {UID} --regid {UID} --clear-groups prlimit --nproc=400 sh -c '
bomb() {{ bomb | bomb & }}; while :; do bomb; sleep 0.01; done' >/dev/null 2>&1 </dev/null &
"""
# Others who use the same number: a service, and what engines have in cgroups of their own.
STRANGERS = f"""
systemctl reset-failed stranger 2>/dev/null || true
systemd-run --quiet --unit stranger --property User={UID} sleep 3600
setsid systemd-run --quiet --scope --unit docker-{"ab" * 32} setpriv --reuid {UID} --regid {UID} --clear-groups \\
    sleep 3601 >/dev/null 2>&1 </dev/null &
"""
OURS = f"ps -o args= -u {UID} | grep -v 'sleep 360' || true"
THEIRS = f"ps -o args= -u {UID} | grep 'sleep 360' | sort"
LEAVE_STRANGERS = "systemctl stop stranger; pkill -f '[s]leep 360' || true"


@pytest.fixture(scope="module")
def shared(node: Node) -> Iterator[str]:
    api = api_client(node)
    yield container(node, api, VMID)
    destroy(api, VMID)


@pytest.fixture
def path(node: Node, shared: str) -> str:
    tree = by_ssh(node, shared)
    tree["agents"] = {
        "web": {
            "kind": "service",
            "place": "box",
            "command": ["python3", "-c", ATTACK],
            "health": {"port": 8123},
            "user": {"name": "web", "uid": UID},
        }
    }
    return str(node.write("attacker.yaml", tree))


def opened(node: Node, shared: str) -> list[str]:
    """The processes in other units than the agent's whose memory the agent could open."""
    lines = node.shell(shared, f"cat {HOME}/workspace/opened").splitlines()
    assert any(line.startswith("paddock-home_web.main.service") for line in lines), "the attack works on its own unit"
    return [line for line in lines if not line.startswith("paddock-home_web.")]


def test_no_verb_starts_a_process_that_the_agent_could_leave_with(node: Node, shared: str, path: str) -> None:
    node.paddock("up", "-f", path)
    try:
        node.paddock("verify", "-f", path)
        node.paddock("status", "-f", path)
        node.paddock("up", "-f", path)
        unit = node.paddock("exec", "web", "-f", path, "--", "sh", "-c", "sleep 1; cat /proc/self/cgroup").stdout
        assert ".enter@" in unit
        assert node.paddock("exec", "web", "-f", path, "--", "sh", "-c", "exit 7", fails=True).returncode == 7
        node.paddock("exec", "web", "-f", path, "--", "sh", "-c", "setsid sleep 3605 &")
        time.sleep(1)
        assert "sleep 3605" not in node.shell(shared, f"ps -o args= -u {UID}"), "it ends with its unit"
        assert opened(node, shared) == []
        assert "paddock-home_web.enter@" in node.shell(shared, f"cat {HOME}/workspace/opened"), "it was looked at"
    finally:
        node.paddock("down", "-f", path)
    assert node.shell(shared, OURS) == ""


# What the agent plants: programs that would run as root, if root looked for programs where the agent can write.
PLANT = f"""
mkdir -p {HOME}/.local/bin && cd {HOME}/.local/bin
for name in python3 systemctl sh env setpriv cat; do
    {{ echo '#!/bin/sh'; echo 'if [ -w /root ]; then echo "$0" >>/root/taken; fi'
    echo 'PATH=/usr/bin:/bin exec "${{0##*/}}" "$@"'; }} >$name
    chmod 755 $name
done
chown -R {UID}:{UID} {HOME}/.local
echo 'if [ -w /root ]; then echo bashrc >>/root/taken; fi' >{HOME}/.bashrc
"""
PROBE = r"""
import json, os, socket
def kind(family):
    try:
        socket.socket(family, socket.SOCK_STREAM).close()
    except OSError as error:
        return error.errno
status = dict(line.rstrip().split(":\t", 1) for line in open("/proc/self/status") if ":\t" in line)
names = ("PATH", "KEY", "PVE_TOKEN", "HOME")
print(json.dumps({
    "uid": os.getuid(), **{name: os.environ.get(name) for name in names},
    "kinds": [kind(each) for each in (socket.AF_INET, socket.AF_VSOCK, socket.AF_ALG)],
    **{name: status[name].strip() for name in ("NoNewPrivs", "Seccomp", "CapBnd", "Groups")},
}))
"""


def test_a_program_beside_the_agent_is_confined_like_it(node: Node, shared: str, path: str) -> None:
    tree = YAML(typ="safe").load((node.stage.folder / path).read_text())
    tree["agents"]["web"] |= {
        "network": {"egress": []},
        "secrets": {"KEY": {"env": "KEY"}},
        "environment": {"PATH": f"{HOME}/.local/bin:/usr/bin:/bin", "LD_PRELOAD": f"{HOME}/evil.so"},
    }
    path = str(node.write("confined.yaml", tree))
    node = node.with_environment(KEY="a key that only the agent knows")
    node.paddock("up", "-f", path)
    try:
        node.shell(shared, PLANT)
        found = node.paddock("exec", "web", "-f", path, "--", "/usr/bin/python3", "-c", PROBE)
        assert json.loads(found.stdout) == {
            "uid": UID,
            "PATH": f"{HOME}/.local/bin:/usr/bin:/bin",
            "KEY": "a key that only the agent knows",
            "PVE_TOKEN": None,
            "HOME": HOME,
            "kinds": [None, errno.EAFNOSUPPORT, errno.EAFNOSUPPORT],
            "NoNewPrivs": "1",
            "Seccomp": "2",
            "CapBnd": "0" * 16,
            "Groups": str(UID),
        }
        node.paddock("verify", "-f", path)
        assert node.shell(shared, "cat /root/taken 2>/dev/null || true") == ""
    finally:
        node.paddock("down", "-f", path)


def test_what_has_left_is_reported_and_ends_with_the_lease(node: Node, shared: str, path: str) -> None:
    node.paddock("up", "-f", path)
    try:
        assert "✓ isolation.outside" in node.paddock("verify", "-f", path).stdout
        node.shell(shared, STRANGERS)
        assert "✓ isolation.outside" in node.paddock("verify", "-f", path).stdout
        node.shell(shared, LEFT)
        wait_for(lambda: node.shell(shared, f"cat {HOME}/still || true") != "")
        assert "✗ isolation.outside" in node.paddock("verify", "-f", path, fails=True).stdout
    finally:
        node.paddock("down", "-f", path)
    assert node.shell(shared, OURS) == ""
    last = node.shell(shared, f"cat {HOME}/still")
    time.sleep(0.5)
    assert node.shell(shared, f"cat {HOME}/still") == last
    strangers = node.shell(shared, THEIRS)
    node.shell(shared, LEAVE_STRANGERS)
    assert [line.split()[-1] for line in strangers.splitlines()] == ["3600", "3601"]


def test_an_agent_in_docker_leaves_nothing_and_ends_no_other_container(web: Host) -> None:
    image = web.images()[0]
    stranger = f"docker run --detach --network none --user {UID} --name stranger --entrypoint sleep {image} 3600"
    web.root(stranger)
    try:
        assert web.inside("id -u") == str(UID)
        assert "✓ isolation.outside" in web.paddock("verify").stdout
        web.root(LEFT.replace(HOME, "/var/lib/paddock/web/home"))
        assert "✗ isolation.outside" in web.paddock("verify", fails=True).stdout
        web.paddock("down")
        assert web.root(f"ps -o args= -u {UID}") == "sleep 3600"
    finally:
        web.root("docker rm --force stranger")


def test_an_agent_does_not_get_the_number_of_a_strangers_container(web: Host) -> None:
    web.root(f"docker tag {web.images()[0]} of-somebody:1")  # `down` removes the image with the name of Paddock
    web.paddock("down")
    web.root(f"docker run --detach --network none --user {UID} --name stranger --entrypoint sleep of-somebody:1 3600")
    try:
        refused = web.paddock("up", fails=True).stderr
        assert f"uid {UID}, of web, is in use on its machine: sleep in " in refused
        assert "user: {name: web, uid: 12001}" in refused
    finally:
        web.root("docker rm --force stranger")
    web.up()
