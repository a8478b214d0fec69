"""Which units and containers use a folder."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from paddock.onboard.imports import users
from paddock.onboard.imports.folder import Contents
from paddock.onboard.imports.users import Users

ORDER: dict[str, Any] = {"variable": "OLD_HOME", "programs": ["old"], "becomes": ".old"}
ID = "0123456789abcdef" * 4


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "someone/.old"
    made.mkdir(parents=True)
    (made / "state.db").write_text("x")
    return made


def users_of(folder: Path) -> Users:
    return Users(str(folder), ORDER, Contents(str(folder), ["*.db"]).inodes)


@contextmanager
def process(*words: str, **options: Any) -> Iterator[int]:
    child = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **options)
    try:
        assert child.stdout
        assert child.stdout.readline() == b"ready\n"
        yield child.pid
    finally:
        child.kill()
        child.wait()


WAIT = "print('ready', flush=True); import time; time.sleep(60)"


def test_nothing_uses_a_folder_that_nobody_has_open(folder: Path) -> None:
    assert users_of(folder).processes() == []


@pytest.mark.parametrize(
    "code",
    [
        "f = open('{folder}/state.db'); ",
        "import os; os.chdir('{folder}'); ",
        "import mmap; f = open('{folder}/state.db'); m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ); f.close(); ",
    ],
    ids=["open", "inside", "mapped"],
)
def test_a_process_that_has_a_file_open_uses_the_folder(folder: Path, code: str) -> None:
    with process(sys.executable, "-c", code.format(folder=folder) + WAIT) as pid:
        assert users_of(folder).processes() == [pid]


def test_a_process_that_is_told_of_the_folder_uses_it(folder: Path) -> None:
    with process(sys.executable, "-c", WAIT, env={"OLD_HOME": str(folder)}) as pid:
        assert users_of(folder).processes() == [pid]
    with process(sys.executable, "-c", WAIT, env={"OLD_HOME": "/elsewhere"}):
        assert users_of(folder).processes() == []


def test_a_program_uses_the_folder_in_the_home_of_its_account(folder: Path, tmp_path: Path) -> None:
    program = tmp_path / "old"
    program.symlink_to(sys.executable)
    home = {"HOME": str(folder.parent)}
    with process(str(program), "-c", WAIT, env=home) as pid:
        assert users_of(folder).processes() == [pid]
    with process(sys.executable, "-c", WAIT, env=home):
        assert users_of(folder).processes() == []
    with process(str(program), "-c", WAIT, env={**home, "OLD_HOME": "/elsewhere"}):
        assert users_of(folder).processes() == []


UNIT = "[Service]\n{lines}\n[Install]\nWantedBy=multi-user.target\n"


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("Environment=OLD_HOME={folder}\nExecStart=/usr/bin/python3 -m something", True),
        ("ExecStart=/opt/old/venv/bin/old --home={folder} run", True),
        ("WorkingDirectory={folder}/workspace\nExecStart=/bin/x", True),
        ("User=someone\nExecStart=/opt/old/venv/bin/old gateway run", True),
        ("User=someone\nExecStart=old gateway run", True),
        ("User=someone\nExecStart=/bin/sh -c 'exec \"/opt/bin/old\" run'", True),
        ("User=root\nExecStart=/opt/old/venv/bin/old gateway run", False),
        ("ExecStart=/opt/old/venv/bin/old gateway run", False),  # root's own folder is another one
        ("User=someone\nExecStart=/opt/old/venv/bin/older run", False),
        ("User=someone\nEnvironment=OLD_HOME=/srv/other\nExecStart=/opt/bin/old run", False),
        ("ExecStart=/bin/x {folder}-copy", False),
        ("ExecStart=/bin/x /backup{folder}", False),
        ("ExecStart=/usr/sbin/sshd -D", False),
    ],
)
def test_a_unit_uses_the_folder_if_its_text_says_so(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: str, *, expected: bool
) -> None:
    units = tmp_path / "units"
    units.mkdir()
    (units / "hermes.service").write_text(UNIT.format(lines=lines.format(folder=folder)))
    (units / "paddock-home_x.main.service").write_text(UNIT.format(lines=f"ExecStart=/bin/x {folder}"))
    monkeypatch.setattr(users, "_unit_files", lambda: [(e.name, str(e), None) for e in sorted(units.iterdir())])
    monkeypatch.setattr(users, "_home", {"someone": str(folder.parent), "root": "/root"}.get)
    found = users_of(folder).described()["units"]
    assert [each["name"] for each in found] == (["hermes.service"] if expected else [])


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        ("0::/system.slice/hermes.service", (None, ("hermes.service", None))),
        ("0::/system.slice/system-x.slice/x@1.service/sub", (None, ("x@1.service", None))),
        (
            "0::/user.slice/user-1000.slice/user@1000.service/app.slice/hermes-gateway.service",
            (None, ("hermes-gateway.service", 1000)),
        ),
        ("0::/user.slice/user-1000.slice/session-3.scope", (None, None)),
        (f"0::/system.slice/docker-{ID}.scope", (ID, None)),
        (f"12:pids:/docker/{ID}\n0::/", (ID, None)),
        ("1:name=systemd:/system.slice/hermes.service\n0::/", (None, ("hermes.service", None))),
        ("0::/system.slice/$(reboot).service", (None, None)),
        ("0::/", (None, None)),
        ("", (None, None)),
    ],
)
def test_the_supervisor_of_a_process_is_read_from_its_cgroup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group: str, expected: object
) -> None:
    (tmp_path / "cgroup").write_text(group + "\n")
    real = open
    monkeypatch.setattr(users, "open", lambda path, **more: real(tmp_path / "cgroup", **more), raising=False)
    assert users._supervisor(os.getpid()) == expected


def test_a_shell_in_the_folder_does_not_make_the_unit_of_ssh_a_user(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise Paddock would stop the ssh server of the machine."""
    monkeypatch.setattr(users, "_supervisor", lambda pid: (None, ("ssh.service", None)))
    shown = {"MainPID": "1", "ActiveState": "active"}
    monkeypatch.setattr(users, "_shown", lambda unit, name: shown[name])
    with process(sys.executable, "-c", WAIT, cwd=folder) as pid:
        found = users_of(folder).described()
        assert [each["pid"] for each in found["others"]] == [pid]
        assert found["units"] == []
        shown["MainPID"] = str(pid)
        assert [each["name"] for each in users_of(folder).described()["units"]] == ["ssh.service"]
