"""Files of an agent on a root disk: `adopt` refuses such a container, and `down` does not destroy it."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from paddock.base.errors import Exit, PaddockError, Refused
from paddock.base.process import Result
from paddock.channels import Guest, Unreachable
from paddock.core.converge import cycle, down, up
from paddock.file.models.whole import MachineSpec
from paddock.kinds import load
from paddock.places.proxmox.machine import reach as reach_module
from paddock.plan.step import AdoptTarget
from paddock.verbs.adopt import adopt, describe
from places.node import Node, PaperAgent, play_ssh

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to mount a root disk")

HOST_KEY = "AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"
FINGERPRINT = "SHA256:+DiY3wvvV6TuJJhbpZisF/zLDA0zPMSvHdkr4UvCOqU"
VOLUME = "/home/bee"
ROOT_DISK = "vm-105-disk-0"
PLANTED = "/home/bee/.local/bin"

# Builds a root disk with the programs of this machine and a volume. The mounts end with the script.
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
# Root's shell finds Python. Paddock's program then runs with a PATH that begins with a directory of the agent.
python=$(PATH=/usr/bin:/bin command -v "$1")
shift
exec chroot "$root" env PATH={PLANTED}:/usr/bin:/bin "$python" "$@"
"""


class Machine:
    """The machine that Paddock reaches over ssh: it runs Paddock's commands on a disk with planted files."""

    name = "bee"

    def __init__(self, folder: Path, plant: str) -> None:
        self.folder = folder
        self.plant = plant

    def run(self, argv: Sequence[str], *, stdin: bytes = b"", deadline: float = 60.0) -> Result:
        root = self.folder / "disk"
        root.mkdir(exist_ok=True)
        given = ["unshare", "--mount", "sh", "-c", MACHINE, "sh", str(root), self.plant, *argv]
        done = subprocess.run(given, input=stdin, capture_output=True, timeout=deadline)
        return Result(tuple(argv), done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(), 0)


class Somebodys:
    """A node where a user created two containers: 105 runs, and mounts a volume of the stopped container 999."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, *, kind: str = "hermes") -> None:
        self.folder = folder
        self.kind = kind
        self.plant = ":"
        self.obstacle: Callable[[], None] = lambda: None
        self.keys: dict[str, Any] = {}
        self.node = Node(folder)
        play_ssh(monkeypatch, self.node)
        monkeypatch.setattr(reach_module, "SshGuest", lambda *_, **__: self.machine())
        self.node.somebody(999, pool="paddock-state", hostname="storage", mp0=f"local-lvm:10,mp={VOLUME}", protection=1)
        volume = f"local-lvm:vm-999-disk-1,mp={VOLUME}"
        self.node.somebody(105, pool="paddock", hostname="bee", net0="name=eth0,bridge=vmbr0,ip=dhcp", mp0=volume)
        self.node.root("pct", "start", 105)
        self.node.machines.host_keys[105] = HOST_KEY

    def machine(self) -> Machine:
        self.obstacle()
        return Machine(self.folder, self.plant)

    def agent(self) -> PaperAgent:
        agent = self.node.agent(**self.keys)
        file = self.folder / "paddock.yaml"
        said = json.loads(file.read_text())
        if self.kind == "hermes":
            del said["agents"]["bee"]["command"]
            said["agents"]["bee"] |= {"kind": "hermes", "version": "0.19.0"}
        if "host_key" in MachineSpec.model_fields:  # the user has compared the fingerprint
            said["agents"]["bee"].setdefault("machine", {})["host_key"] = FINGERPRINT
        file.write_text(json.dumps(said))
        return PaperAgent.of_file(agent.name, load(file), agent.node, agent.told, self.node.side)

    def adopt(self) -> None:
        target = AdoptTarget(105)
        self.keys = dict(describe(self.agent(), target).said)
        adopt(self.agent(), target)

    def lives(self, *verbs: Callable[[], object]) -> PaddockError | None:
        """Run the verbs until one fails, and return its error."""
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
    """Return a script that writes a file of Hermes' memory below a directory."""
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
def test_adopt_is_refused_when_the_agent_has_files_on_the_root_disk(found: Somebodys, path: str, plant: str) -> None:
    found.plant = plant
    before = {vmid: found.node.config(vmid) for vmid in found.node.vmids}
    ended = found.lives(found.adopt, lambda: up(found.agent()), lambda: down(found.agent()))
    found.expect_disk(f"the only copy of the memory in {path}")
    assert ended is not None
    assert ended.exit_code is Exit.NEEDS_PERSON
    assert f"state of bee: {path}" in ended.message
    assert "`paddock adopt bee --from 105` copies them into the state of a new machine" in str(ended.hint)
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
def test_adopt_ignores_files_on_volumes_links_and_empty_directories(found: Somebodys, plant: str) -> None:
    found.plant = plant
    found.adopt()
    up(found.agent())
    down(found.agent())
    assert ROOT_DISK not in found.node.volumes


@pytest.mark.parametrize("verb", [down, cycle])
def test_an_adopted_machine_with_new_files_on_its_root_disk_is_not_destroyed(
    found: Somebodys, verb: Callable[[PaperAgent], str]
) -> None:
    found.adopt()
    up(found.agent())
    found.plant = kept("/root/.hermes")
    ended = found.lives(lambda: verb(found.agent()))
    found.expect_disk("the only copy of the memory in /root/.hermes")
    assert found.node.running == [105], "the machine was stopped before its root disk was examined"
    assert ended is not None
    assert "/root/.hermes" in ended.message


def test_a_machine_whose_root_disk_cannot_be_examined_is_not_adopted(found: Somebodys) -> None:
    def refuse() -> None:
        raise Unreachable("bee cannot be reached over ssh: Permission denied")

    found.obstacle = refuse
    found.plant = kept("/root/.hermes")
    ended = found.lives(found.adopt, lambda: down(found.agent()))
    found.expect_disk("a file that could not be looked for")
    assert isinstance(ended, Refused)
    assert "--looked" in str(ended.hint)


def test_an_adopted_machine_whose_root_disk_cannot_be_examined_is_not_destroyed(found: Somebodys) -> None:
    found.adopt()
    up(found.agent())
    found.node.root("pct", "stop", 105)
    found.plant = kept("/root/.hermes")
    ended = found.lives(lambda: down(found.agent()))
    found.expect_disk("a file that could not be looked for")
    assert isinstance(ended, Refused)
    up(found.agent())  # as the hint says
    assert found.node.running == [105]


def test_the_working_directory_of_a_service_is_examined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = Somebodys(tmp_path, monkeypatch, kind="service")
    found.plant = kept("/srv/app")
    target = AdoptTarget(105)
    found.keys = {**describe(found.agent(), target).said, "working_directory": "/srv/app"}
    ended = found.lives(lambda: adopt(found.agent(), target), lambda: down(found.agent()))
    found.expect_disk("the service's working directory")
    assert "/srv/app" in str(ended)


@pytest.mark.parametrize(("name", "shown"), [("a\n\x1b]0;owned\x07\u2028b", "\\x1b"), ("a\udcff", "\\udcff")])
def test_file_names_chosen_by_an_agent_are_shown_with_escapes(found: Somebodys, name: str, shown: str) -> None:
    path = shlex.quote(f"/srv/{name}/.hermes")
    found.plant = f"mkdir -p {path} && touch {path}/state.db"
    ended = found.lives(found.adopt, lambda: down(found.agent()))
    found.expect_disk("a memory in a directory with an odd name")
    assert shown in str(ended)
    assert all(letter.isprintable() for letter in str(ended)), str(ended)


def test_a_long_list_of_found_files_is_cut(found: Somebodys) -> None:
    found.plant = f"seq -f /srv/%g-{'x' * 200}/.hermes 3000 | xargs mkdir -p; touch /srv/*/.hermes/state.db"
    ended = found.lives(found.adopt, lambda: down(found.agent()))
    found.expect_disk("a memory among thousands of directories")
    assert len(str(ended)) < 2000


@pytest.mark.parametrize("where", ["/root/.hermes", "/opt/data", "/srv/x"])
def test_folders_that_an_agent_nests_deeply_hide_nothing_and_do_not_end_the_search(
    found: Somebodys, where: str
) -> None:
    """As many folders as a path can have: more than calls that Python nests, and more than files that it may open."""
    depth = (4095 - len(where) - len("/.hermes/x")) // 2
    nest = f"import os\nos.chdir({where!r})\nfor _ in range({depth}): os.mkdir('d') or os.chdir('d')\n"
    planted = "os.mkdir('.hermes') or open('.hermes/x', 'w')"
    found.plant = f"mkdir -p {where}; /usr/bin/python3 -c {shlex.quote(nest + planted)}"
    ended = found.lives(found.adopt, lambda: down(found.agent()))
    found.expect_disk("a memory in deeply nested folders")
    assert f"state of bee: {where}" in str(ended)


def test_the_search_for_files_runs_no_program_of_the_agent(found: Somebodys) -> None:
    """The agent plants programs on PATH, a named pipe, links, and files named like options of `find`."""
    programs = "find stat head sh printf python3 getent"
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
    from paddock.core import files as strays
    from paddock.core.resolve import locate

    machine = found.machine()
    said: list[Result] = []

    class Heard(Machine):
        def run(self, argv: Sequence[str], **more: Any) -> Result:
            said.append(machine.run(argv, **more))
            return said[-1]

    heard = cast(Guest, Heard(found.folder, found.plant))
    assert sorted(strays.look(locate(found.agent()), heard)) == ["/root/.hermes", "/var/lib/hermes"]
    assert [result.err for result in said] == [""]
