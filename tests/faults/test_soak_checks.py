"""The checks of the soak can fail: losses, leaks and growth are planted, and found."""

from __future__ import annotations

import os
import shutil
import socket
import sqlite3
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from faults.inventory import inventory, leaks, leaks_now
from faults.judge import Sample, growth, slowdown
from faults.ledger import Ledger, listening
from faults.records import RING, Writer, examine, line
from levels import slow_proof
from live.manual import api_client, container_parameters, destroy
from live.node import Node, wait_for
from live.node_root import root
from paddock.file.agent_id import AgentId
from paddock.places.proxmox.node.notes import Claim, Mark, Role
from pvebox.runtime.lxc.names import Names


@pytest.fixture(scope="module")
def two_writers() -> Iterator[Path]:
    """A folder with records of two writers, the second after the first was stopped in the middle of a record."""
    memory = Path("/dev/shm")  # where a write to disk takes no time
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as name:
        folder = Path(name)
        first = Writer(folder)
        for _ in range(RING):
            first.add()
        with (folder / "log").open("a") as log:
            log.write(line(RING + 1))
        second = Writer(folder)
        for _ in range(RING // 2):
            second.add()
        yield folder


@pytest.fixture
def written(two_writers: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(two_writers, tmp_path / "written"))


def test_records_of_two_writers_have_no_gap(written: Path) -> None:
    assert examine(written) == {"records": RING * 3 // 2, "faults": []}


def remove_a_row(folder: Path) -> None:
    with sqlite3.connect(folder / "records.db") as database:
        database.execute("DELETE FROM records WHERE number = 20")


def change_a_row(folder: Path) -> None:
    with sqlite3.connect(folder / "records.db") as database:
        database.execute("UPDATE records SET line = 'other' WHERE number = 20")


def damage_the_database(folder: Path) -> None:
    with sqlite3.connect(folder / "records.db") as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        database.execute("CREATE INDEX numbers ON records (line)")
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        database.execute("PRAGMA writable_schema=ON")
        database.execute(
            "UPDATE sqlite_schema SET sql = 'CREATE INDEX numbers ON records (number)' WHERE name = 'numbers'"
        )


def cut_the_log(folder: Path) -> None:
    lines = (folder / "log").read_text().splitlines(keepends=True)
    (folder / "log").write_text("".join(lines[:-1]))


def tear_the_log(folder: Path) -> None:
    (folder / "log").write_text((folder / "log").read_text()[:-1])


def lose_a_line(folder: Path) -> None:
    lines = (folder / "log").read_text().splitlines(keepends=True)
    (folder / "log").write_text("".join(lines[:19] + lines[20:]))


def lose_a_file(folder: Path) -> None:
    (folder / "files/20").unlink()


def revert_a_file(folder: Path) -> None:
    (folder / "files/20").write_text(line(20))


def damage_a_file(folder: Path) -> None:
    (folder / "files/40").write_text(line(40).replace("40 ", "40 x"))


@pytest.mark.parametrize(
    ("plant", "told"),
    [
        (remove_a_row, "row 20 is not as it was written"),
        (change_a_row, "row 20 is not as it was written"),
        (damage_the_database, "SQLite: "),
        (cut_the_log, "the log ends at 95, the database at 96"),
        (tear_the_log, "line of the log 96 is not as it was written"),
        (lose_a_line, "line of the log 20 is not as it was written"),
        (lose_a_file, "file 20 is not as it was written"),
        (revert_a_file, "file 20 is not as it was written"),
        (damage_a_file, "file 40 is not as it was written"),
    ],
)
def test_a_planted_loss_is_found(written: Path, plant: Callable[[Path], None], told: str) -> None:
    plant(written)
    found = examine(written)["faults"]
    assert told in str(found)


def test_a_lost_tail_is_found_by_the_ledger() -> None:
    ledger = Ledger()
    for number in range(1, 11):
        ledger.acknowledge(1, number)
    ledger.acknowledge(2, 9)
    assert ledger.faults == ["record 9 was written again: the records from 9 to 10 were lost"]


def test_a_record_without_acknowledgement_at_the_stop_is_no_fault() -> None:
    ledger = Ledger()
    ledger.acknowledge(1, 1)
    ledger.acknowledge(2, 3)
    assert ledger.faults == []


def test_a_gap_and_two_writers_at_once_are_found_by_the_ledger() -> None:
    ledger = Ledger()
    ledger.acknowledge(1, 1)
    ledger.acknowledge(1, 3)
    ledger.acknowledge(2, 4)
    ledger.acknowledge(1, 5)
    assert ledger.faults == ["record 3 follows record 1", "writer 1 wrote record 5 while writer 2 was at work"]


def test_the_ledger_counts_whole_lines_of_each_connection() -> None:
    ledger = Ledger()
    with listening(ledger, "127.0.0.1") as port:
        for sent in (b"1\n2\n3", b"3\n"):
            with socket.create_connection(("127.0.0.1", port)) as writer:
                writer.sendall(sent)
            last = int(sent.split(b"\n")[-2])
            wait_for(lambda last=last: ledger.last == last)  # type: ignore[misc]
    assert (ledger.writers, ledger.last, ledger.faults) == (2, 3, [])


@pytest.mark.live
@slow_proof
def test_a_planted_leak_of_each_kind_is_found(live_node: Node) -> None:
    own = live_node.stage.folder / "planted"
    node = live_node.with_environment(TMPDIR=str(own / "tmp"), XDG_CACHE_HOME=str(own / "cache"))
    keys = own / "cache/paddock/known_hosts"
    for folder in (own / "tmp", keys):
        folder.mkdir(parents=True)
    before = inventory(node)
    with ExitStack() as planted:
        for plant in (old_key, volume_on_a_loop_device, mount, link, socket_in_a_folder, process, container):
            planted.enter_context(plant(node))
        found = leaks(before, inventory(node))
    on_the_node = ("containers", "locked containers", "claims", "unfinished containers", "volumes")
    on_this_machine = ("mounts", "loops", "links", "run processes", "temporary files", "sockets", "unused host keys")
    for kind in (*on_the_node, *on_this_machine):
        assert any(f" more {kind}: " in each for each in found), (kind, found)
    assert leaks_now(node, before) == []


def names(node: Node) -> Names:
    return Names(node.stage.folder / "sandbox")


@contextmanager
def old_key(node: Node) -> Iterator[None]:
    key = Path(node.stage.environment["XDG_CACHE_HOME"]) / "paddock/known_hosts/key"
    key.touch()
    os.utime(key, (0, 0))
    try:
        yield
    finally:
        key.unlink()


@contextmanager
def volume_on_a_loop_device(node: Node) -> Iterator[None]:
    volume = names(node).volumes("pve", "local-lvm") / "planted.img"
    volume.parent.mkdir(parents=True, exist_ok=True)
    volume.touch()
    os.truncate(volume, 1 << 20)
    command = ["losetup", "--find", "--show", str(volume)]
    device = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    try:
        yield
    finally:
        subprocess.run(["losetup", "--detach", device], check=True)
        volume.unlink()


@contextmanager
def mount(node: Node) -> Iterator[None]:
    point = names(node).run / "planted"
    point.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "planted", str(point)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", str(point)], check=True)
        point.rmdir()


@contextmanager
def link(node: Node) -> Iterator[None]:
    name = f"p{names(node).short_id}zz"
    subprocess.run(["ip", "link", "add", name, "type", "bridge"], check=True)
    try:
        yield
    finally:
        subprocess.run(["ip", "link", "delete", name], check=True)


@contextmanager
def socket_in_a_folder(node: Node) -> Iterator[None]:
    path = Path(node.stage.environment["TMPDIR"]) / "control"
    try:
        with socket.socket(socket.AF_UNIX) as control:
            control.bind(str(path))
            yield
    finally:
        path.unlink()


@contextmanager
def process(node: Node) -> Iterator[None]:
    running = subprocess.Popen(["sleep", "60"], env=dict(node.stage.environment))
    try:
        yield
    finally:
        running.kill()
        running.wait()


@contextmanager
def container(node: Node) -> Iterator[None]:
    """A locked container with a claim, which its run has not settled."""
    api, vmid = api_client(node), 249
    mark = Mark(Role.CATTLE, AgentId("home", "lost"), new="someone/12345678")
    claim = Claim("someone/12345678", datetime.now(UTC) + timedelta(hours=1))
    named: dict[str, Any] = {"vmid": vmid, "hostname": "lost", "description": claim.written_into(str(mark))}
    api.task("POST", f"/nodes/{api.node}/lxc", {**container_parameters(node), **named})
    assert root(node, "pct", "set", str(vmid), "-lock", "backup").returncode == 0
    try:
        yield
    finally:
        assert root(node, "pct", "unlock", str(vmid)).returncode == 0
        destroy(api, vmid)


def test_one_thing_more_of_any_kind_is_a_leak() -> None:
    before = {"mounts": ["/a", "/b"], "sockets": []}
    assert leaks(before, {"mounts": ["/b", "/c"], "sockets": []}) == []
    assert leaks(before, {"mounts": ["/a", "/b", "/c"], "sockets": ["/s"]}) == [
        "1 more mounts: /c",
        "1 more sockets: /s",
    ]


def test_a_slowdown_is_found_and_the_load_of_the_machine_is_none() -> None:
    steady = [4.0 + number % 3 / 10 for number in range(40)]
    slower = [4.0 + number / 20 for number in range(40)]
    even = [0.5] * 40
    assert slowdown(steady, even) == []
    assert slowdown(slower[:19], even[:19]) == []
    assert slowdown(slower, even) == ["the last ten cycles took 5.72 s each, the first ten 4.22 s"]
    assert slowdown(slower, [seconds / 8 for seconds in slower]) == []


def test_growing_memory_handles_and_threads_are_found() -> None:
    def used(kib: float = 0, handles: float = 0, threads: float = 0) -> list[Sample]:
        caches = [60_000 + 4000 * min(number, 10) for number in range(60)]
        return [
            Sample(rss + int(kib * at), 90_000, 12 + at % 2 + int(handles * at), 3 + int(threads * at))
            for at, rss in enumerate(caches)
        ]

    assert growth("it", used()) == []
    assert growth("it", used(kib=100)) == ["it: its memory grew by 2.9 MiB"]
    assert growth("it", used(handles=0.1)) == ["it: it had 15 handles, and 18 at the end"]
    assert growth("it", used(threads=0.1)) == ["it: it had 5 threads, and 8 at the end"]


def test_the_handles_of_a_process_are_counted() -> None:
    before = Sample.of("self")
    with socket.socket():
        assert Sample.of(os.getpid()).handles == before.handles + 1
