"""Root's work: commands are shown and waited for, or run over ssh, and wrong results are reported."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from paddock.base.errors import NeedsPerson, PaddockError, Refused
from paddock.base.process import Result
from paddock.channels import Unreachable
from paddock.core.converge import cycle, down, up
from paddock.places.proxmox import place as place_room
from paddock.verbs.outputs import as_env, as_text, outputs, script
from places.node import CATTLE, PET, Killed, Node, PaperAgent
from places.test_requests import neighbours, written_to
from pvebox.console.console import Console
from pvebox.console.shell import run_lines

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="plays root's own commands; chown among them takes root")

LXC = "/nodes/pve/lxc"
HOST = "/mnt/pve/hdd/bee"
MOUNTS = [{"host": HOST, "path": "/data"}]
WANTED: dict[str, Any] = {"mounts": MOUNTS, "machine": {"features": ["nesting", "keyctl"]}}
WAITING = "waiting until this is done"
STATE = "local-lvm:vm-100-disk-1,mp=/var/lib/paddock/bee"


def obey(node: Node, agent: PaperAgent, *but: str) -> Callable[[], None]:
    """Return a person who runs the commands that are shown, except some."""

    def act() -> None:
        for line in agent.told.commands:
            if not any(words in line for words in but):
                said = node.shell(line)
                assert said.code == 0, (line, said)

    return act


def pasted(node: Node, lines: Sequence[str]) -> int:
    """Paste lines into the shell of the sandbox, as `paddock console | pvebox root` does; return its exit code."""
    return run_lines(lines, lambda argv: Console(node.world).run(argv).code)


def restarts(node: Node) -> int:
    return sum(sent.path.endswith("/status/reboot") for sent in node.sent)


def pid(node: Node) -> int:
    return node.machines.usage(CATTLE).pid


def owner_on_node(node: Node, path: str) -> tuple[int, int]:
    facts = node.world.runtime.host_path("pve", path).stat()
    return facts.st_uid, facts.st_gid


def test_the_simulated_node_has_a_filesystem_of_its_own(node: Node, tmp_path: Path) -> None:
    node.shell(f"mkdir -p {HOST}")
    assert node.world.runtime.host_path("pve", HOST).is_relative_to(tmp_path)
    assert (tmp_path / "node/host/pve" / HOST.lstrip("/")).is_dir()


def test_up_continues_after_a_person_has_run_the_commands(node: Node) -> None:
    agent = node.agent(**WANTED)
    agent.told.when(WAITING, obey(node, agent))
    assert up(agent) == "bee: up and working"
    assert agent.told.commands == [
        f"mkdir -p {HOST} &&",
        f"{{ mountpoint -q {HOST} || chown 110000:110000 {HOST}; }} &&",
        f"pct set {CATTLE} -features keyctl=1,nesting=1 -mp1 {HOST},mp=/data &&",
        f"pct reboot {CATTLE} &&",
        f"ls -lnd {HOST}",
    ]
    assert node.config(CATTLE)["mp1"] == f"{HOST},mp=/data"
    assert owner_on_node(node, HOST) == (110000, 110000)
    assert owner_on_node(node, "/mnt/pve/hdd") == (0, 0)
    assert restarts(node) == 0  # the person restarted it
    node.sent.clear()
    assert "nothing to do" in up(node.agent(**WANTED))
    assert not node.writes


def test_the_commands_for_root_can_be_repeated(node: Node) -> None:
    agent = node.agent(**WANTED)
    agent.told.when(WAITING, obey(node, agent))
    up(agent)
    before = node.config(CATTLE)
    (node.world.runtime.host_path("pve", HOST) / "theirs").touch()
    obey(node, agent)()
    assert node.config(CATTLE) == before
    assert owner_on_node(node, f"{HOST}/theirs") == (0, 0)  # files below keep their owner


def test_up_repeats_what_is_missing_while_nothing_changes(node: Node) -> None:
    agent = node.agent(mounts=MOUNTS)
    # The person's `pct set` failed, and changed nothing that the API shows.
    reminded = f"still missing: {HOST} is not mounted"
    agent.told.when(
        reminded, lambda: agent.told.when(reminded, lambda: agent.told.when("    ls -lnd", obey(node, agent)))
    )
    assert up(agent) == "bee: up and working"
    assert agent.told.lines.count(reminded) >= 2
    assert "what is left:" in agent.told.lines


def test_up_without_waiting_fails_with_the_commands(node: Node) -> None:
    with pytest.raises(NeedsPerson, match=f"mkdir -p {HOST}") as caught:
        up(node.agent(patient=False, mounts=MOUNTS))
    assert caught.value.exit_code == 4
    assert f"pct set {CATTLE} -mp1 {HOST},mp=/data" in caught.value.message
    assert "in the shell of node pve" in caught.value.message
    assert node.running == [CATTLE]
    lines = script(node.agent(mounts=MOUNTS)).lines
    assert lines[0].startswith("# bee: wait until root has added ")
    assert pasted(node, lines) == 0
    node.sent.clear()
    up(node.agent(patient=False, mounts=MOUNTS))
    assert not node.writes
    assert script(node.agent(mounts=MOUNTS)).lines == ["# bee: nothing for root to do"]


def test_a_printed_command_that_fails_makes_the_shell_of_the_sandbox_fail(node: Node) -> None:
    with pytest.raises(NeedsPerson):
        up(node.agent(patient=False, **WANTED))
    lines = script(node.agent(**WANTED)).lines
    node.root("pct", "stop", CATTLE)
    node.root("pct", "destroy", CATTLE)
    assert pasted(node, lines) != 0


def test_up_restarts_the_machine_if_the_person_did_not(node: Node) -> None:
    agent = node.agent(**WANTED)
    agent.told.when(WAITING, obey(node, agent, "pct reboot"))
    up(agent)
    assert "the machine was not restarted; restarting it" in str(agent.told)
    assert restarts(node) == 1
    assert set(node.config(CATTLE)["features"].split(",")) == {"keyctl=1", "nesting=1"}


def test_up_does_not_restart_a_machine_that_a_person_restarted(node: Node) -> None:
    agent = node.agent(**WANTED)
    began: list[int] = []

    def act() -> None:
        began.append(pid(node))
        obey(node, agent)()

    agent.told.when(WAITING, act)
    up(agent)
    assert pid(node) == began[0] + 1


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (f"pct set {CATTLE} -mp1 {HOST},mp=/dat", f"mp1 mounts {HOST} at /dat, but the file says /data"),
        (f"pct set {CATTLE} -mp1 /srv,mp=/data", f"mp1 mounts /srv at /data, but the file says {HOST}"),
        (f"pct set {CATTLE} -mp1 {HOST},mp=/data,ro=1", f"mp1 mounts {HOST} read-only, but the file says writable"),
        (f"pct set {CATTLE} -mp0 {HOST},mp=/data", f"mp0 must be the machine's own volume {STATE.partition(',')[0]}"),
    ],
)
def test_wrong_commands_of_a_person_are_reported_and_can_be_corrected(node: Node, command: str, said: str) -> None:
    agent = node.agent(mounts=MOUNTS)

    def wrong() -> None:
        node.shell(f"mkdir -p {HOST}")
        assert node.shell(command).code == 0
        agent.told.when("what is left:", lambda: agent.told.when(f"ls -lnd {HOST}", right))

    def right() -> None:
        if "mp0" in command:
            back = next(line for line in agent.told.lines if "put it back:" in line)
            assert node.shell(back.partition("put it back: ")[2]).code == 0
        obey(node, agent)()

    agent.told.when(WAITING, wrong)
    up(agent)
    assert any(f"not yet: {said}" in line for line in agent.told.lines)
    assert node.config(CATTLE)["mp0"].startswith(STATE)
    assert f"{HOST},mp=/data" in node.config(CATTLE).values()


def test_a_writable_mount_that_should_be_read_only_is_reported(node: Node) -> None:
    mounts = [{"host": HOST, "path": "/data", "read_only": True}]
    agent = node.agent(mounts=mounts)

    def writable() -> None:
        agent.told.when("what is left:", lambda: agent.told.when(f"ls -lnd {HOST}", obey(node, agent)))
        for line in agent.told.commands:
            node.shell(line.replace(",ro=1", ""))

    agent.told.when(WAITING, writable)
    up(agent)
    assert any(f"not yet: mp1 mounts {HOST} writable, but the file says read-only" in line for line in agent.told.lines)
    assert node.config(CATTLE)["mp1"] == f"{HOST},mp=/data,ro=1"
    assert owner_on_node(node, HOST) == (0, 0), "what is only read needs no other owner"


@pytest.mark.parametrize(
    ("features", "said"),
    [
        ("nesting=1", "machine 101 does not have the feature keyctl"),
        ("keyctl=1", "machine 101 does not have the feature nesting"),
    ],
)
def test_wrong_features_are_reported(node: Node, features: str, said: str) -> None:
    agent = node.agent(**WANTED)

    def other() -> None:
        agent.told.when("what is left:", lambda: agent.told.when(f"ls -lnd {HOST}", obey(node, agent)))
        node.shell(f"mkdir -p {HOST}")
        assert node.shell(f"pct set {CATTLE} -features {features} -mp1 {HOST},mp=/dat").code == 0

    agent.told.when(WAITING, other)
    up(agent)
    assert any(f"not yet: {said}" in line for line in agent.told.lines)
    assert set(node.config(CATTLE)["features"].split(",")) == {"keyctl=1", "nesting=1"}


def test_other_mount_keys_are_accepted_and_extra_mounts_are_noted(node: Node) -> None:
    agent = node.agent(mounts=MOUNTS)

    def act() -> None:
        for line in agent.told.commands:
            node.shell(line.replace("-mp1", "-mp7 /srv/more,mp=/more -mp9"))

    agent.told.when(WAITING, act)
    up(agent)
    again = node.agent(mounts=MOUNTS)
    assert "nothing to do" in up(again)
    assert "also has /srv/more at /more (mp7), which the file does not name" in str(again.told)


def test_down_notes_that_a_new_machine_needs_root_again(node: Node) -> None:
    agent = node.agent(template="auto", **WANTED)
    agent.told.when(WAITING, obey(node, agent))
    up(agent)
    assert any(line.startswith("pct set 102 -features") for line in agent.told.commands)  # the template
    gone = node.agent(template="auto", **WANTED)
    down(gone)
    assert f"these directories of the node are kept: {HOST}" in str(gone.told)
    assert f"a new machine needs root in the node's shell again for {HOST}, " in str(gone.told)
    assert owner_on_node(node, HOST) == (110000, 110000)
    new = node.agent(template="auto", **WANTED)
    new.told.when(WAITING, obey(node, new))
    up(new)
    assert not any("features" in line for line in new.told.commands)  # a clone has the features of its template


def test_an_agent_without_keyctl_gets_a_template_without_it(node: Node) -> None:
    agent = node.agent(template="auto", machine={"features": ["nesting", "keyctl"]})
    agent.told.when(WAITING, obey(node, agent))
    up(agent)
    down(node.agent(template="auto"))
    up(node.agent(template="auto"))
    assert node.config(CATTLE)["features"] == "nesting=1"


class PlayedRoot:
    """The shell of the node, as if over ssh."""

    name = "root@node"

    def __init__(self, node: Node) -> None:
        self.node = node
        self.ran: list[str] = []

    def run(self, argv: Sequence[str], *, stdin: bytes = b"", deadline: float = 60.0) -> Result:
        self.ran.append(argv[-1].removesuffix(" || exit 1"))
        said = self.node.shell(argv[-1])
        if said.code == 255:  # also ssh's own exit code for a failed connection
            raise Unreachable(f"root@node cannot be reached over ssh at node: {said.err}")
        return Result(tuple(argv), said.code, said.out, said.err, 0.0)


@pytest.fixture
def root(node: Node, monkeypatch: pytest.MonkeyPatch) -> PlayedRoot:
    played = PlayedRoot(node)
    monkeypatch.setattr(place_room, "SshGuest", lambda *words: played)
    return played


def test_up_runs_the_commands_itself_with_ssh_root(node: Node, root: PlayedRoot) -> None:
    agent = node.agent(root="root@node", patient=False, **WANTED)
    up(agent)
    assert [line.split()[0] for line in root.ran] == ["mountpoint", "mkdir", "mountpoint", "pct", "pct", "ls"]
    assert restarts(node) == 0
    root.ran.clear()
    cycle(node.agent(root="root@node", patient=False, **WANTED))
    assert f"pct set {CATTLE} -features keyctl=1,nesting=1 -mp1 {HOST},mp=/data" in root.ran


def test_a_command_that_fails_over_ssh_is_named(node: Node, root: PlayedRoot) -> None:
    up(node.agent())
    node.put(CATTLE, lock="backup")
    root.node = node
    node.before("GET", f"{LXC}/{CATTLE}/status/current", lambda: node.put(CATTLE, lock="backup"))
    node.put(CATTLE, lock=None)
    with pytest.raises(PaddockError, match=rf"`pct set {CATTLE} .*` failed on root@node: CT is locked"):
        up(node.agent(root="root@node", mounts=MOUNTS))
    node.put(CATTLE, lock=None)
    up(node.agent(root="root@node", mounts=MOUNTS))
    assert node.config(CATTLE)["mp1"] == f"{HOST},mp=/data"


def test_up_refuses_to_give_the_mount_point_of_a_disk_to_an_agent(
    node: Node, root: PlayedRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    up(node.agent())
    monkeypatch.setattr(Path, "is_mount", lambda path: path.name == "bee")
    node.shell(f"mkdir -p {HOST}")
    with pytest.raises(Refused, match=f"{HOST} is the mount point of a disk on root@node"):
        up(node.agent(root="root@node", mounts=MOUNTS))
    assert "mp1" not in node.config(CATTLE)
    assert owner_on_node(node, HOST) == (0, 0)
    with pytest.raises(NeedsPerson) as caught:
        up(node.agent(mounts=MOUNTS, patient=False))
    for line in caught.value.message.splitlines()[1:]:
        node.shell(line.strip())
    assert owner_on_node(node, HOST) == (0, 0), "the command looks too"


def test_the_next_run_continues_after_a_kill_while_waiting_for_a_person(node: Node) -> None:
    agent = node.agent(mounts=MOUNTS)

    def die() -> None:
        raise Killed

    agent.told.when(WAITING, die)
    with pytest.raises(Killed):
        up(agent)
    again = node.agent(mounts=MOUNTS)
    again.told.when(WAITING, obey(node, again))
    node.sent.clear()
    up(again)
    assert not node.writes
    assert node.vmids == [PET, CATTLE]


def test_doctor_says_who_will_do_the_work_of_root(
    node: Node, root: PlayedRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    def finding(agent: PaperAgent) -> tuple[bool, str]:
        findings, _ = agent.examine()
        return next((f.ok, f.evidence) for f in findings if f.subject == "root's part of bee")

    assert finding(node.agent(**WANTED)) == (
        True,
        f"{HOST}, keyctl: `up` will ask a person at the node's shell, without ssh.root",
    )
    assert finding(node.agent(mounts=[{"host": "/mnt/pve/hdd", "path": "/data"}])) == (
        False,
        "mounts: /mnt/pve/hdd is the root of storage hdd",
    )
    assert finding(node.agent(root="root@node", **WANTED)) == (
        False,
        f"root@node is not root on a Proxmox node, which {HOST}, keyctl needs",
    )
    up(node.agent(root="root@node", **WANTED))
    assert finding(node.agent(**WANTED)) == (True, f"{HOST}, keyctl: done")


def test_doctor_tries_the_shell_through_which_machines_are_reached(node: Node, root: PlayedRoot) -> None:
    findings, _ = node.agent(root="root@node", reach="pct").examine()
    assert [(f.ok, f.evidence) for f in findings if f.subject == "reach"] == [
        (False, "root@node is not root on a Proxmox node, which pct exec needs")
    ]
    findings, _ = node.agent(root="root@node").examine()
    assert not [f for f in findings if f.subject == "reach"]


def test_outputs_are_read_from_the_place(node: Node) -> None:
    nothing = {"bee": outputs(node.agent())}
    assert nothing == {"bee": {"vmid": None, "hostname": "bee", "address": None}}
    assert list(as_env(nothing)) == ["BEE_HOSTNAME=bee"]
    up(node.agent(machine={"hostname": "hive"}))
    found = {"bee-2": outputs(node.agent(machine={"hostname": "hive"}))}
    assert found == {"bee-2": {"vmid": CATTLE, "hostname": "hive", "address": "10.0.0.101"}}
    assert list(as_env(found)) == ["BEE_2_VMID=101", "BEE_2_HOSTNAME=hive", "BEE_2_ADDRESS=10.0.0.101"]
    assert next(as_text(found)) == "bee-2.vmid = 101"


def test_root_writes_only_to_the_agents_containers(node: Node, root: PlayedRoot) -> None:
    others = neighbours(node)
    before = {vmid: node.config(vmid) for vmid in others}
    mounts = [{"host": HOST, "path": "/big"}]  # in a container /data is the path of the state
    wanted = {**WANTED, "mounts": mounts, "template": "auto", "root": "root@node", "runtime": "docker"}
    up(node.agent(**wanted, container={"install": True, "base": "debian:12", "data": "20G"}))
    cycle(node.agent(**wanted, container={"install": True, "base": "debian:12", "data": "30G"}))
    down(node.agent(**wanted, container={"install": True, "base": "debian:12", "data": "30G"}))
    assert set().union(*map(written_to, node.writes)) == {PET, CATTLE, 102}
    named = {word for line in root.ran if line.startswith("pct") for word in line.split() if word.isdecimal()}
    assert named == {str(CATTLE), "102"}
    assert {vmid: node.config(vmid) for vmid in others} == before
