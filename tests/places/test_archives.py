"""Backups that Proxmox makes: the pet is never changed, and only what was proven counts as a backup."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from levels import by_level
from paddock.backups.verified import check
from paddock.base.errors import PaddockError, Refused
from paddock.channels import Guest
from paddock.core.archives import archives_of
from paddock.core.converge import down, forget, plan_forget, up
from paddock.core.resolve import Located
from paddock.places.proxmox.api.client import TaskFailed
from paddock.places.proxmox.node import observe
from paddock.plan.agent import AgentSeen
from paddock.verbs import backup as backups
from paddock.verbs.restore import choose, plan
from paper import PaperSide
from places.life import runs_until_done
from places.node import CATTLE, DAILY, PET, ROOT, WIDE, Killed, Node, PaperAgent

BUILDER = 102
LOCAL = "/nodes/pve/storage/local/content"


class Side(PaperSide):
    """Machines on paper. A machine that nothing was installed on reads a state of the agent."""

    whose = "home_bee"

    def look(self, agent: Located, guest: Guest, patience: float = 0.0) -> AgentSeen:
        return self.inside.get(guest.name, AgentSeen(state_of=self.whose))


@pytest.fixture
def node(node: Node, tmp_path: Path) -> Node:
    """A node whose daily token may back up, with an agent that is up."""
    node.machines.home = tmp_path / "state/home"
    (node.machines.home / "notes").mkdir(parents=True)
    (node.machines.home / "notes/learned.md").write_text("the owner likes tea\n")
    up(node.agent(template="auto"))
    node.side = Side(node.machines.inside)
    for line in bee(node).examine()[1]:
        if line.startswith("pveum"):
            assert node.shell(line).code == 0
    node.sent.clear()
    return node


def bee(node: Node, **more: Any) -> PaperAgent:
    keys = {"backup": {"to": {"proxmox": {"storage": "local"}}}, **more}
    return node.agent(token=DAILY, template="auto", **keys)


def read(agent: PaperAgent) -> dict[str, Any]:
    """The manifest of the newest backup, read completely."""
    archives = archives_of(agent)
    assert archives
    with archives.read(archives.backups()[-1]) as stream:
        return check(stream)


def units(node: Node) -> set[str]:
    return {state for seen in node.machines.inside.values() for state in seen.units.values()}


def expect_as_before(node: Node) -> None:
    assert node.vmids == [PET, CATTLE, BUILDER]
    assert node.running == [CATTLE]
    assert units(node) == {"active"}
    assert node.machines.held == []
    assert node.config(PET)["protection"] == 1


def test_a_backup_of_the_pet_is_listed_and_read_by_the_daily_token(node: Node) -> None:
    before = node.config(PET)
    assert "in backup" in backups.back_up(bee(node))
    [row] = backups.listed(bee(node))
    assert (row["agent"], row["files"], row["version"]) == ("bee", "-", "-")
    expect_as_before(node)
    manifest = read(bee(node))
    assert [entry["path"] for entry in manifest["entries"]] == ["notes", "notes/learned.md"]
    assert manifest["agent"] == "home_bee"
    expect_as_before(node)
    assert node.config(PET) == before
    assert not [sent for sent in node.writes if sent.path.startswith(f"/nodes/pve/lxc/{PET}")]
    assert "is complete: 1 file" in backups.check_backup(bee(node), None)


def test_the_agent_is_stopped_and_its_lease_held_while_proxmox_reads_its_state(node: Node) -> None:
    met: list[Any] = []
    node.before("POST", "/nodes/pve/vzdump", lambda: met.append((units(node), list(node.machines.held))))
    backups.back_up(bee(node))
    assert met == [({"inactive"}, ["10.0.0.101"])]
    expect_as_before(node)


def test_an_agent_that_is_down_is_backed_up_without_a_machine(node: Node) -> None:
    down(node.agent(template="auto"))
    node.sent.clear()
    backups.back_up(bee(node))
    assert node.running == []
    assert len(backups.listed(bee(node))) == 1


def test_a_backup_that_failed_starts_the_agent_again_and_is_not_listed(node: Node) -> None:
    def fail(*_: Any) -> int:
        raise OSError("file changed as we read it")

    node.machines.archive = fail  # type: ignore[method-assign, assignment]
    with pytest.raises(TaskFailed, match="vzdump failed"):
        backups.back_up(bee(node))
    expect_as_before(node)
    assert backups.listed(bee(node)) == []


def test_an_answer_without_a_task_is_no_backup(node: Node) -> None:
    """Proxmox answers OK and saves nothing if the pet is on another node."""
    agent = bee(node)

    def answer_ok() -> None:
        node.rewrite = lambda data: {"data": "OK"} if str(data["data"]).startswith("UPID:") else data

    node.before("POST", "/nodes/pve/vzdump", answer_ok)
    with pytest.raises(PaddockError, match=r"did not back .* up: it answered 'OK'"):
        backups.back_up(agent)
    node.rewrite = None
    expect_as_before(node)
    _settle(node)
    assert backups.listed(bee(node)) == []


def test_an_archive_does_not_count_if_the_lease_was_lost_meanwhile(node: Node) -> None:
    node.before("POST", "/nodes/pve/vzdump", lambda: setattr(node.machines, "lost", True))
    with pytest.raises(PaddockError, match="may have been started meanwhile"):
        backups.back_up(bee(node))
    expect_as_before(node)
    assert backups.listed(bee(node)) == []


def kills(node: Node, work: Callable[[PaperAgent], object]) -> int:
    """How many writing requests some work has."""
    before = len(node.writes)
    work(bee(node))
    return len(node.writes) - before


def test_a_backup_that_is_killed_after_any_request_counts_only_if_it_was_finished(node: Node) -> None:
    for at in range(1, kills(node, backups.back_up) + 1):
        known = len(backups.listed(bee(node)))
        agent = bee(node)
        node.kill_after = len(node.writes) + at
        with pytest.raises(Killed):
            backups.back_up(agent)
        _settle(node)
        agent = bee(node)
        found = backups.listed(agent)
        assert len(found) in (known, known + 1)
        up(bee(node))
        expect_as_before(node)
    assert backups.prune(bee(node), dry_run=False)
    left = node.client(ROOT).get(LOCAL, {"content": "backup"})
    assert left
    assert all(str(row["notes"]).startswith("paddock-backup: ") for row in left)


def _settle(node: Node) -> None:
    for task in node.world.tasks.running():
        task.ended.wait(20)


def test_reading_that_is_killed_after_any_request_leaves_nothing_after_the_next_run(node: Node) -> None:
    backups.back_up(bee(node))
    before = node.config(PET)
    step = by_level(2, 1)
    for at in range(1, kills(node, read) + 1, step):
        agent = bee(node)
        node.kill_after = len(node.writes) + at
        with pytest.raises(Killed):
            read(agent)
        _settle(node)
        if at % 2:
            runs_until_done(up, lambda: bee(node))
        else:
            read(bee(node))
        expect_as_before(node)
        assert node.config(PET) == before


def test_a_reader_of_a_living_run_is_left_alone(node: Node) -> None:
    backups.back_up(bee(node))
    archives = archives_of(bee(node))
    assert archives
    with archives.read(archives.backups()[-1]) as stream:
        other = node.agent(token=DAILY, template="auto", alongside=True)
        assert "nothing to do" in up(other)
        assert check(stream)["agent"] == "home_bee"
    expect_as_before(node)


def test_the_spare_and_the_reader_are_removed_by_forget_too(node: Node) -> None:
    backups.back_up(bee(node))
    agent = bee(node)
    node.before("POST", "/nodes/pve/lxc/*/status/start", lambda: setattr(node, "_dead", True))
    with pytest.raises(Killed):
        read(agent)
    _settle(node)
    assert len(node.vmids) == 5
    agent = node.agent(template="auto")
    down(agent)
    agent = node.agent(template="auto")
    seen, agreed = plan_forget(agent)
    forget(agent, agreed, seen)
    assert node.vmids == [BUILDER]


def test_an_archive_of_another_agent_is_not_restored(node: Node) -> None:
    backups.back_up(bee(node))
    Side.whose = "home_ant"
    try:
        with pytest.raises(PaddockError, match="has the state of home_ant, not of home_bee"):
            read(bee(node))
    finally:
        Side.whose = "home_bee"
    expect_as_before(node)


def test_notes_that_somebody_else_wrote_are_no_backup(node: Node) -> None:
    for notes in ("", "paddock-backup: v=1 agent=home_bee", "paddock-backup: v=1 agent=home_ant kind=service run=x"):
        node.somebody_asks("POST", "/nodes/pve/vzdump", vmid=PET, storage="local", **{"notes-template": notes or "x"})
    assert backups.listed(bee(node)) == []
    backups.prune(bee(node), dry_run=False)
    assert len(node.client(ROOT).get(LOCAL, {"content": "backup"})) > 0


def test_a_forged_archive_without_the_state_is_refused_before_it_is_restored(node: Node) -> None:
    forged = "paddock-backup: v=1 agent=home_bee kind=service run=x"
    node.somebody_asks("POST", "/nodes/pve/vzdump", vmid=CATTLE, storage="local", **{"notes-template": forged})
    node.sent.clear()
    assert backups.listed(bee(node)) == []  # the daily token has no VM.Backup on machines
    wide = node.agent(token=WIDE, template="auto", backup={"to": {"proxmox": {"storage": "local"}}})
    with pytest.raises(PaddockError, match="does not have the state of"):
        backups.check_backup(wide, None)
    assert not node.writes


def test_prune_keeps_what_the_file_keeps_and_what_is_protected(node: Node) -> None:
    for _ in range(2):
        backups.back_up(bee(node))
        time.sleep(1.1)  # the name of an archive has its second
    rows = node.client(ROOT).get(LOCAL, {"content": "backup"})
    node.somebody_asks("PUT", f"{LOCAL}/{rows[0]['volid']}", protected=1)
    backups.back_up(bee(node))
    keep = {"to": {"proxmox": {"storage": "local"}}, "keep": {"last": 1}}
    told = backups.prune(bee(node, backup=keep), dry_run=False)
    assert [line.split()[1] for line in told] == ["keep", "removed", "keep"]
    assert told[0].endswith("(protected)")
    assert len(backups.listed(bee(node))) == 2


def test_restore_shows_how_the_backup_is_read_before_it_asks(node: Node) -> None:
    backups.back_up(bee(node))
    agent = bee(node)
    found = plan(agent, choose(agent, None))
    ids = [step.id for step in found.steps]
    assert ids[:6] == ["backup.reach", "spare.restore", "reader.clone", "reader.start", "reader.reach", "state.receive"]
    assert "state.swap" in ids


def test_a_damaged_database_in_a_backup_is_found(node: Node) -> None:
    path = node.machines.home / "memory.db"
    with closing(sqlite3.connect(path)) as database:
        database.executescript("create table t (x text); create index i on t (x);")
        database.executemany("insert into t values (?)", [(f"{number:0500}",) for number in range(500)])
        database.commit()
    backups.back_up(bee(node))
    assert "is complete" in backups.check_backup(bee(node), None)
    data = bytearray(path.read_bytes())
    data[-4096 * 20 : -4096 * 10] = b"\xff" * 4096 * 10
    path.write_bytes(data)
    with pytest.raises(PaddockError, match=r"1 damaged databases:\nmemory.db: "):
        backups.check_backup(bee(node), None)
    expect_as_before(node)


@pytest.mark.parametrize(
    ("prepare", "words"),
    [
        (lambda node: node.put(PET, mp0=node.config(PET)["mp0"].replace("backup=1", "backup=0")), "has no backup=1"),
        (lambda node: node.put(PET, lock="snapshot"), "locked"),
        (
            lambda node: node.put(PET, mp1="local-lvm:vm-100-disk-7,mp=/var/lib/paddock/home_ant,backup=1,size=1G"),
            "would also have",
        ),
    ],
)
def test_a_backup_that_could_not_be_sound_is_refused_before_the_agent_stops(
    node: Node, monkeypatch: pytest.MonkeyPatch, prepare: Callable[[Node], None], words: str
) -> None:
    monkeypatch.setattr(observe, "_SETTLE_SECONDS", 2)  # for a lock, which is waited for
    prepare(node)
    with pytest.raises(Refused, match=words):
        backups.back_up(bee(node))
    assert units(node) == {"active"}
    assert not node.writes


def test_a_token_without_the_privilege_is_refused_before_the_agent_stops(node: Node) -> None:
    node.root("pveum", "role", "delete", "PaddockBackup")
    with pytest.raises(Refused, match=r"lacks privileges: VM.Backup on /vms/100"):
        backups.back_up(bee(node))
    assert units(node) == {"active"}
    assert not node.writes
    with pytest.raises(Refused, match="Proxmox hides their backups"):
        backups.listed(bee(node))


def test_a_new_pet_with_the_number_of_the_lost_one_finds_the_backups(node: Node) -> None:
    backups.back_up(bee(node))
    down(node.agent(template="auto"))
    seen, agreed = plan_forget(node.agent(template="auto"))
    forget(node.agent(template="auto"), agreed, seen)
    up(node.agent(template="auto", state={"pet": PET}))
    assert read(bee(node))["agent"] == "home_bee"


@pytest.mark.parametrize("storage", ["local-lvm", "nowhere"])
def test_a_storage_that_cannot_hold_backups_is_refused(node: Node, storage: str) -> None:
    with pytest.raises(Refused, match=r"not set up for backups|cannot be used for backups"):
        backups.back_up(bee(node, backup={"to": {"proxmox": {"storage": storage}}}))
    assert units(node) == {"active"}


def test_doctor_asks_for_the_privileges_only_if_a_file_uses_them(node: Node) -> None:
    plain = node.agent(token=DAILY, template="auto").examine()[0]
    assert [f.evidence.partition(": ")[0] for f in plain if "VM.Backup" in f.evidence] == ["may do more than it needs"]
    node.root("pveum", "role", "delete", "PaddockBackup")
    findings, remedies = bee(node).examine()
    assert any(finding.evidence == "lacks VM.Backup" for finding in findings)
    assert any("pveum acl modify /pool/paddock-state" in line and "PaddockBackup" in line for line in remedies)


def test_texts_and_drills_are_kept_on_this_machine(node: Node) -> None:
    agent = bee(node)
    archives = archives_of(agent)
    assert archives
    backups.back_up(agent)
    made = archives.backups()[-1]
    assert archives.texts(made) is None
    archives.keep_texts(made, {"notes/learned.md": "tea"})
    assert archives.texts(made) == {"notes/learned.md": "tea"}
    archives.remove([made])
    assert archives.texts(made) is None
