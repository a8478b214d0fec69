"""What the program on the machine finds: secrets that everyone can read, others' sockets, processes that have ended."""

from __future__ import annotations

import hashlib
import math
import os
import socket
import time
from pathlib import Path

import pytest

from paddock.onboard.facts import leaks as search
from paddock.onboard.facts.main import has_ended
from paddock.onboard.facts.sockets import company


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A folder that everyone can enter."""
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == os.getuid() and folder.name.startswith("pytest-"):
            folder.chmod(0o755)
    tmp_path.chmod(0o755)
    (tmp_path / "secrets.env").write_text("KEY=canary-value\n")
    (tmp_path / "secrets.env").chmod(0o600)
    return tmp_path


def written(path: Path, mode: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("token: canary-value\n")
    path.chmod(mode)
    return path


def found(machine: Path, *skip: Path) -> list[str]:
    told = search.leaks([f"{machine}/secrets.env"], [str(machine)], [str(each) for each in skip], ["true"])
    assert told["values"] == 1
    paths: list[str] = told["found"].get("KEY", [])
    return [str(Path(path).relative_to(machine)) for path in paths if path.startswith(str(machine))]


def test_secrets_are_found_in_files_that_everyone_can_read(machine: Path) -> None:
    written(machine / "etc/motd", 0o644)
    written(machine / "etc/private", 0o640)
    written(machine / "closed/open", 0o644)
    (machine / "closed").chmod(0o750)
    (machine / "etc/link").symlink_to(machine / "etc/private")
    assert found(machine) == ["etc/motd"]


def test_files_of_packages_and_of_the_code_are_not_read(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, library = written(machine / "opt/code/tree/a.py", 0o644), written(machine / "usr/lib/b.so", 0o644)
    assert found(machine, code.parents[1]) == ["usr/lib/b.so"]
    monkeypatch.setattr(search, "packaged", lambda: iter([str(library)]))
    monkeypatch.setattr(search, "ROOT", str(machine))
    assert found(machine, code.parents[1]) == []


def test_a_folder_within_another_is_searched_in_its_own_turn(machine: Path) -> None:
    for path in ("etc/a", "tmp/b", "var/c"):
        written(machine / path, 0o644)
    tops = [f"{machine}/etc", str(machine), f"{machine}/tmp"]
    found = [path for path in search.open_texts(tops, [], math.inf) if not path.endswith(".env")]
    assert [str(Path(path).relative_to(machine)) for path in found] == ["etc/a", "var/c", "tmp/b"]
    assert list(search.open_texts(tops, [], 0)) == []


@pytest.mark.skipif(not Path("/var/lib/dpkg/status").exists(), reason="needs the database of Debian's packages")
def test_a_configuration_that_a_package_brought_is_no_leak(tmp_path: Path) -> None:
    status = Path("/var/lib/dpkg/status").read_text()
    path, content = next(
        (line.split()[0], Path(line.split()[0]).read_bytes())
        for line in status.splitlines()
        if line.startswith(" /etc/") and Path(line.split()[0]).is_file()
        if hashlib.md5(Path(line.split()[0]).read_bytes()).hexdigest() == line.split()[1]
    )
    assert search.is_unchanged(path, content)
    assert not search.is_unchanged(path, content + b"more")
    assert not search.is_unchanged(f"{tmp_path}/other", content)


def test_packages_are_asked_for_their_files_except_those_in_etc(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (machine / "usr/lib").mkdir(parents=True)
    (machine / "lib").symlink_to("usr/lib")
    (machine / "a.list").write_text(f"/.\n{machine}/lib\n{machine}/lib/b.so\n/etc/b.conf\n")
    monkeypatch.setattr("glob.glob", lambda _: [f"{machine}/a.list"])
    assert f"{machine}/usr/lib/b.so" in search.packaged()
    assert "/etc/b.conf" not in search.packaged()


def test_sockets_of_other_programs_are_told_with_their_names() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        told = {each["port"]: each for each in company([], alone=False)}
        comm = Path("/proc/self/comm").read_text().strip()
        assert told[port] == {"host": "127.0.0.1", "port": port, "uid": os.getuid(), "name": comm}
        assert port not in {each["port"] for each in company([os.getpid()], alone=False)}


@pytest.mark.parametrize(
    ("state", "restarts", "age", "its_own", "ended"),
    [
        ("failed", 0, 5, True, True),
        ("failed", 0, 5, False, True),
        ("activating", 3, 5, True, True),
        ("active", 3, 5, True, True),
        ("active", 3, 600, True, False),  # it has recovered
        ("active", 2, 5, True, False),
        ("activating", 9, 5, False, False),  # it waits for the lease
    ],
)
def test_a_process_that_ends_again_and_again_is_not_waited_for(
    state: str, restarts: int, age: float, *, its_own: bool, ended: bool
) -> None:
    process = {"state": state, "pid": 1, "restarts": restarts, "since": time.time() - age}
    assert has_ended(process, its_own=its_own) is ended
