"""Finding 15: a container whose agent kept its memory on the root disk was adopted, and `down` destroyed that disk."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from paddock.errors import Exit, PaddockError, Refused
from paddock.guests import Guest, Unreachable
from paddock.places import AdoptTarget
from paddock.places.proxmox import reach as reach_room
from paddock.process import Result
from paddock.recipes import load
from paddock.run.adopt import adopt, describe
from paddock.run.verbs import cycle, down, up
from paddock.spec.models import MachineSpec
from places.node import Node, Outside, play_ssh

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounts a root disk of its own, which takes root")

HOST_KEY = "AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"
FINGERPRINT = "SHA256:+DiY3wvvV6TuJJhbpZisF/zLDA0zPMSvHdkr4UvCOqU"
VOLUME = "/home/bee"
ROOT_DISK = "vm-105-disk-0"
PLANTED = "/home/bee/.local/bin"

# A root disk of its own, with the programs of this machine and a volume. Its mounts end with the script.
MACHINE = f"""
set -e
root=$1 plant=$2
shift 2
mount -t tmpfs disk "$root"
for each in /bin /sbin /lib /lib64 /usr; do
    [ ! -L "$each" ] || cp -a "$each" "$root$each"
    [ -L "$each" ] || [ ! -d "$each" ] || {{ mkdir "$root$each" && mount --bind "$each" "$root$each"; }}
done
mkdir -p "$root/etc" "$root/root" "$root/tmp" "$root/dev" "$root{VOLUME}"
mount --bind /dev "$root/dev"
echo 'bee:x:10000:10000::{VOLUME}:/bin/bash' >"$root/etc/passwd"
mount -t tmpfs volume "$root{VOLUME}"
chroot "$root" sh -euc "$plant"
shift # sh: the login found it, and whatever it runs then has a PATH that somebody else decided about
exec chroot "$root" env PATH={PLANTED}:/usr/bin:/bin /bin/sh "$@"
"""


class Machine:
    """What answers over ssh: whatever Paddock runs there is run, on a disk that a test has planted files on."""

    name = "bee"

    def __init__(self, folder: Path, plant: str) -> None:
        self.folder = folder
        self.plant = plant

    def run(self, argv: Sequence[str], *, stdin: bytes = b"", deadline: float = 60.0) -> Result:
        root = self.folder / "disk"
        root.mkdir(exist_ok=True)
        given = ["unshare", "--mount", "sh", "-c", MACHINE, "sh", str(root), self.plant, *argv]
        done = subprocess.run(given, capture_output=True, timeout=deadline)
        return Result(tuple(argv), done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(), 0)


class Somebodys:
    """A container that somebody made, with a volume of a stopped one; 105 runs and can be reached."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, *, kind: str = "hermes") -> None:
        self.folder = folder
        self.kind = kind
        self.plant = ":"
        self.obstacle: Callable[[], None] = lambda: None
        self.keys: dict[str, Any] = {}
        self.node = Node(folder)
        play_ssh(monkeypatch, self.node)
        monkeypatch.setattr(reach_room, "SshGuest", lambda *_, **__: self.machine())
        self.node.somebody(999, hostname="storage", mp0=f"local-lvm:10,mp={VOLUME}", protection=1)
        volume = f"local-lvm:vm-999-disk-1,mp={VOLUME}"
        self.node.somebody(105, hostname="bee", net0="name=eth0,bridge=vmbr0,ip=dhcp", mp0=volume)
        self.node.root("pct", "start", 105)
        self.node.machines.host_keys[105] = HOST_KEY

    def machine(self) -> Machine:
        self.obstacle()
        return Machine(self.folder, self.plant)

    def agent(self) -> Outside:
        agent = self.node.agent(**self.keys)
        file = self.folder / "paddock.yaml"
        said = json.loads(file.read_text())
        if self.kind == "hermes":
            del said["agents"]["bee"]["command"]
            said["agents"]["bee"] |= {"kind": "hermes", "version": "0.19.0"}
        if "host_key" in MachineSpec.model_fields:  # a person has compared it
            said["agents"]["bee"].setdefault("machine", {})["host_key"] = FINGERPRINT
        file.write_text(json.dumps(said))
        again = Outside(agent.name, load(file), agent.place, agent.told)
        again.told = agent.told
        return again

    def adopt(self) -> None:
        target = AdoptTarget(105)
        self.keys = dict(describe(self.agent(), target).said)
        adopt(self.agent(), target)

    def lives(self, *verbs: Callable[[], object]) -> PaddockError | None:
        """Go through the verbs, until one is refused."""
        try:
            for verb in verbs:
                verb()
        except PaddockError as error:
            return error
        return None

    def expect_disk(self, what: str) -> None:
        assert ROOT_DISK in self.node.volumes, f"{what} was destroyed with the root disk of container 105"


@pytest.fixture
def found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Somebodys:
    return Somebodys(tmp_path, monkeypatch)


def kept(path: str) -> str:
    """A script that leaves a memory in a directory."""
    return f"mkdir -p {path}/memories && echo 'the gate code is 7421' >{path}/memories/MEMORY.md"


PLACES = {
    "of root": ("/root/.hermes", kept("/root/.hermes")),
    "of an account": ("/home/someone/.hermes", kept("/home/someone/.hermes")),
    "of an account elsewhere": ("/srv/people/x/.hermes", kept("/srv/people/x/.hermes")),
    "in /opt": ("/opt/hermes", kept("/opt/hermes")),
    "as its image has it": ("/opt/data", kept("/opt/data")),
    "as a service": ("/var/lib/hermes", kept("/var/lib/hermes/.data")),
    "in a volume of Docker": (
        "/var/lib/docker/volumes/h/_data/gateway_state.json",
        "mkdir -p /var/lib/docker/volumes/h/_data && echo 1 >/var/lib/docker/volumes/h/_data/gateway_state.json",
    ),
    "in a home of its own": ("/srv/bee", f"echo 'x:x:10000:10000::/srv/bee:/bin/sh' >>/etc/passwd; {kept('/srv/bee')}"),
}


@pytest.mark.parametrize(("path", "plant"), PLACES.values(), ids=list(PLACES))
def test_a_memory_on_the_root_disk_is_seen_by_adopt(found: Somebodys, path: str, plant: str) -> None:
    found.plant = plant
    before = {vmid: found.node.config(vmid) for vmid in found.node.vmids}
    ended = found.lives(found.adopt, lambda: up(found.agent()), lambda: down(found.agent()))
    found.expect_disk(f"the only copy of the memory in {path}")
    assert ended is not None
    assert ended.exit_code is Exit.NEEDS_PERSON
    assert f"memory of bee: {path}" in ended.message
    assert "cannot import" in str(ended.hint)
    assert {vmid: found.node.config(vmid) for vmid in found.node.vmids} == before


NOT_STRAY = {
    "on the volume": kept(f"{VOLUME}/.hermes"),
    "links to the volume": f"mkdir /opt {VOLUME}/.hermes; ln -s {VOLUME}/.hermes /root; ln -s {VOLUME} /opt/data;"
    f" {kept(f'{VOLUME}/.hermes')}",
    "a link to anything": "mkdir /opt; ln -s / /root/.hermes; ln -s /usr /opt/data",
    "empty directories": "mkdir -p /root/.hermes/memories /opt/data /opt/hermes",
    "a volume below": f"mkdir -p /opt/data/x; mount -t tmpfs other /opt/data/x; {kept('/opt/data/x')}",
    "what shells leave": "mkdir -p /srv/b/.ssh; cd /srv/b; touch .bashrc .profile .bash_history .ssh/key;"
    " echo 'x:x:10000:10000::/srv/b:/bin/sh' >>/etc/passwd",
}


@pytest.mark.parametrize("plant", NOT_STRAY.values(), ids=list(NOT_STRAY))
def test_what_no_root_disk_holds_is_no_reason_to_refuse(found: Somebodys, plant: str) -> None:
    found.plant = plant
    found.adopt()
    up(found.agent())
    down(found.agent())
    assert ROOT_DISK not in found.node.volumes


@pytest.mark.parametrize("verb", [down, cycle])
def test_a_memory_that_comes_after_adopting_keeps_the_machine(found: Somebodys, verb: Callable[[Outside], str]) -> None:
    found.adopt()
    up(found.agent())
    found.plant = kept("/root/.hermes")
    ended = found.lives(lambda: verb(found.agent()))
    found.expect_disk("the only copy of the memory in /root/.hermes")
    assert found.node.running == [105], "the machine was stopped before it was looked at"
    assert ended is not None
    assert "/root/.hermes" in ended.message


def test_a_machine_that_cannot_be_looked_into_is_not_adopted(found: Somebodys) -> None:
    def refuse() -> None:
        raise Unreachable("bee cannot be reached over ssh: Permission denied")

    found.obstacle = refuse
    found.plant = kept("/root/.hermes")
    ended = found.lives(found.adopt, lambda: down(found.agent()))
    found.expect_disk("a memory that nobody could look for")
    assert isinstance(ended, Refused)
    assert "--looked" in str(ended.hint)


def test_an_adopted_machine_that_cannot_be_looked_into_is_not_destroyed(found: Somebodys) -> None:
    found.adopt()
    up(found.agent())
    found.node.root("pct", "stop", 105)
    found.plant = kept("/root/.hermes")
    ended = found.lives(lambda: down(found.agent()))
    found.expect_disk("a memory that nobody could look for")
    assert isinstance(ended, Refused)
    up(found.agent())  # says the hint
    assert found.node.running == [105]


def test_a_service_s_working_directory_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = Somebodys(tmp_path, monkeypatch, kind="service")
    found.plant = kept("/srv/app")
    target = AdoptTarget(105)
    found.keys = {**describe(found.agent(), target).said, "working_directory": "/srv/app"}
    ended = found.lives(lambda: adopt(found.agent(), target), lambda: down(found.agent()))
    found.expect_disk("what the service keeps in its working directory")
    assert "/srv/app" in str(ended)


def test_names_that_an_agent_chose_do_not_reach_the_terminal(found: Somebodys) -> None:
    name = "/srv/a\n\x1b]0;owned\x07\u2028b"
    found.plant = f"mkdir -p {shlex.quote(name)}/.hermes && touch {shlex.quote(name)}/.hermes/state.db"
    ended = found.lives(found.adopt, lambda: down(found.agent()))
    found.expect_disk("a memory in a directory with an odd name")
    assert "\\x1b" in str(ended)
    assert all(letter.isprintable() for letter in str(ended)), str(ended)


def test_many_names_are_cut(found: Somebodys) -> None:
    found.plant = (
        f"for each in $(seq 3000); do mkdir -p /srv/$each-{'x' * 200}/.hermes; done; touch /srv/*/.hermes/state.db"
    )
    ended = found.lives(found.adopt, lambda: down(found.agent()))
    found.expect_disk("a memory among thousands of directories")
    assert len(str(ended)) < 2000


def test_the_look_runs_nothing_of_the_agent_s(found: Somebodys) -> None:
    """Programs on a PATH that is not root's own, a pipe that would never end, and links to all sides."""
    programs = "find stat head sh printf"
    found.plant = f"""
    mkdir -p {PLANTED} /root/.hermes /var/lib/hermes
    for each in {programs}; do
        printf '#!/bin/sh\\necho planted $0 >&2\\nexit 7\\n' >{PLANTED}/$each
        chmod 755 {PLANTED}/$each
    done
    mkfifo /root/.hermes/pipe
    ln -s / /var/lib/hermes/all
    touch -- "/var/lib/hermes/-delete" "/var/lib/hermes/-exec"
    """
    if not hasattr(found.agent().recipe, "traces"):
        pytest.skip("this Paddock does not look")
    from paddock.run import strays

    machine = found.machine()
    said: list[Result] = []

    class Heard(Machine):
        def run(self, argv: Sequence[str], **more: Any) -> Result:
            said.append(machine.run(argv, **more))
            return said[-1]

    heard = cast(Guest, Heard(found.folder, found.plant))
    assert sorted(strays.look(found.agent(), heard)) == ["/root/.hermes", "/var/lib/hermes"]
    assert [result.err for result in said] == [""]
