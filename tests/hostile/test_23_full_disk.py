"""Finding 23: a full disk of the operator ended a run; journals were not pruned; caches and file names were trusted."""

from __future__ import annotations

import errno
import os
import shlex
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from paddock import cli
from paddock.checks import asked
from paddock.errors import PaddockError
from paddock.guests import ssh
from paddock.places import Traits
from paddock.places.proxmox import root_work, root_worker
from paddock.places.proxmox.actions import RootWork
from paddock.recipes.code import CodeTree, Distribution, LocalCode, Tool
from paddock.recipes.hermes import checks
from paddock.run import lock
from paddock.run.journal import Journal
from paddock.run.reporter import Reporter
from paddock.run.verbs import down, up
from paddock.runtimes import codetree
from paddock.spec.agent_id import AgentId
from places.node import CATTLE, PET, Node, play_ssh
from pvebox import stage

NOBODY = 65534
SCRIPTS = Path(__file__).parents[2] / "scripts"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKpublic"

Fill = Callable[[], None]


@pytest.fixture(params=["blocks", "inodes"])
def disk(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fill]:
    """Mount a small disk for all files that Paddock writes on this machine. Return a function that fills it."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a disk that is small enough to fill")
    point = tmp_path / "disk"
    point.mkdir()
    size = {"blocks": "size=64k", "inodes": "size=1m,nr_inodes=24"}[request.param]
    if subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(point)], check=False).returncode:
        pytest.skip("a tmpfs cannot be mounted on this machine")
    for name in ("XDG_STATE_HOME", "XDG_CACHE_HOME"):
        (point / name).mkdir()
        monkeypatch.setenv(name, str(point / name))

    def fill() -> None:
        with suppress(OSError):
            for number in range(1000):
                (point / f"filler{number}").touch()
                if request.param == "blocks":
                    (point / f"filler{number}").write_bytes(b"\0" * 4096)

    yield fill
    subprocess.run(["umount", "--lazy", str(point)], check=True)  # a failed run may have a file open


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    node = Node(tmp_path)
    play_ssh(monkeypatch, node)
    return node


def paddock(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "paddock", *words]
    return subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=120, check=False
    )


def test_down_of_a_machine_works_on_a_full_disk(node: Node, disk: Fill) -> None:
    up(node.agent())
    assert CATTLE in node.vmids
    disk()
    reporter = Reporter(Journal("down"))
    with reporter.run():
        agent = node.agent()
        with reporter.of("bee").step("down", "take it down"):
            down(agent)
    assert CATTLE not in node.vmids, "the machine is still there"
    assert PET in node.vmids


def test_the_verb_down_works_on_a_full_disk_with_one_warning(tmp_path: Path, disk: Fill) -> None:
    file = tmp_path / "paddock.yaml"
    file.write_text(
        "project: home\nplaces: {here: {host: {}}}\n"
        "agents: {web: {kind: service, place: here, runtime: process, command: [sleep, inf]}}\n"
    )
    done = paddock("up", "-f", str(file))
    assert done.returncode == 0, done.stderr
    disk()
    done = paddock("down", "-f", str(file))
    assert "bug in Paddock" not in done.stderr, done.stderr
    assert done.returncode == 0, f"a full disk keeps an agent from being taken down: {done.stderr}"
    assert "web: down" in done.stdout
    assert done.stderr.count("warning:") == 1, done.stderr


def test_a_disk_that_becomes_full_does_not_end_a_run(disk: Fill, capsys: pytest.CaptureFixture[str]) -> None:
    journal = Journal("up")
    disk()
    for number in range(200):
        journal.write("begin", agent="bee", id=f"step{number}", title="x" * 200)
    journal.close()


@dataclass(frozen=True)
class Named:
    """Stands for an agent and its place."""

    name: str
    traits = Traits("home", mounts_state=False, keeps_machine=True)

    @property
    def id(self) -> AgentId:
        return AgentId("home", self.name)

    @property
    def place(self) -> Any:
        return self


def test_locks_work_on_a_full_disk(disk: Fill) -> None:
    disk()
    bee: Any = Named("bee")
    wasp: Any = Named("wasp")
    with lock.agent_lock(bee), lock.agent_lock(wasp), lock.place_lock(bee):
        pass


def test_the_known_hosts_file_is_written_elsewhere_on_a_full_disk(disk: Fill) -> None:
    disk()
    path = ssh._known_hosts("bee", [KEY])
    assert path.read_text() == f"bee {KEY}\n"


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_an_essential_write_on_a_full_disk_is_an_error_that_names_the_file(
    code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from paddock.spec import schema

    def fail(_kinds: object) -> None:
        raise OSError(code, os.strerror(code), "/home/me/.cache/paddock/code/x")

    monkeypatch.setattr(schema, "json_schema", fail)
    monkeypatch.setattr(sys, "argv", ["paddock", "schema"])
    out, err = sys.stdout, sys.stderr
    try:
        with pytest.raises(SystemExit) as end:
            cli.main()
    finally:
        sys.stdout, sys.stderr = out, err
    said = capsys.readouterr().err
    assert "bug in Paddock" not in said, said
    assert end.value.code == 1
    assert said.startswith(
        "error: this machine's disk is full: /home/me/.cache/paddock/code/x cannot be written\n hint: "
    )


def test_a_full_disk_during_one_agents_run_is_reported_beside_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    from paddock.run.parallel import each

    def verb(agent: Any) -> str:
        if agent.name == "bee":
            raise OSError(errno.ENOSPC, "No space left on device", "/x")
        return f"{agent.name}: down"

    class Agent:
        model_gateway = None

        def __init__(self, name: str) -> None:
            self.name = name
            self.reporter = Reporter().of(name)

    agents: Any = [Agent("bee"), Agent("wasp")]
    try:
        each(agents, 2, verb)
    except PaddockError as error:
        said = error.message
    except OSError as error:
        said = f"a traceback: {error}"
    assert said == "wasp: down\nbee: this machine's disk is full: /x cannot be written"


@pytest.mark.parametrize("said", ["database or disk is full", "disk I/O error", "unable to open database file"])
def test_the_hint_for_a_database_on_a_full_disk_is_not_to_restore_a_backup(said: str) -> None:
    check = checks.databases("hermes", "/state/home")
    answers = {"answers": [{"found": {"content": {"state.db": said}}, "seconds": 0.1}]}
    (line,) = asked.lines([check], answers)
    assert "backup" not in (line.hint or ""), f"a database that may be intact would be overwritten: {line.hint}"
    assert "free some space" in (line.hint or "")


def test_the_hint_for_a_damaged_database_is_to_restore_a_backup() -> None:
    check = checks.databases("hermes", "/state/home")
    for said in ("database disk image is malformed", "file is not a database", "*** in database main ***"):
        answers = {"answers": [{"found": {"content": {"state.db": said}}, "seconds": 0.1}]}
        (line,) = asked.lines([check], answers)
        assert "backup" in (line.hint or "")


# --- journals


def test_journals_are_pruned_by_age_and_count(tmp_path: Path) -> None:
    runs = tmp_path / "xdg_state_home/paddock/runs"
    runs.mkdir(parents=True)
    now = datetime.now(UTC)
    for hours in range(1, 701):
        (runs / f"{now - timedelta(hours=hours):%Y%m%dT%H%M%S.%f}-up.jsonl").touch()
    (runs / "notes.jsonl").touch()
    (runs / "20200101T000000.000000-mine.txt").touch()
    Journal("up").close()
    left = sorted(path.name for path in runs.glob("2*-up.jsonl"))
    assert len(left) <= 501, f"{len(left)} journals are kept"
    assert left[-2] == f"{now - timedelta(hours=1):%Y%m%dT%H%M%S.%f}-up.jsonl"
    assert (runs / "notes.jsonl").exists()
    assert (runs / "20200101T000000.000000-mine.txt").exists()


def test_the_newest_journals_are_kept_however_old_they_are(tmp_path: Path) -> None:
    runs = tmp_path / "xdg_state_home/paddock/runs"
    runs.mkdir(parents=True)
    now = datetime.now(UTC)
    for days in range(200, 260):
        (runs / f"{now - timedelta(days=days):%Y%m%dT%H%M%S.%f}-up.jsonl").touch()
    Journal("up").close()
    assert len(list(runs.iterdir())) == 21, "the number of old journals is wrong"


# --- cached code


PYTHON = codetree.Interpreter(sys.executable, f"{sys.version_info.major}.{sys.version_info.minor}", os.uname().machine)


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CodeTree:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "tiny_agent-1.2-py3-none-any.whl"
    info = "tiny_agent-1.2.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("tinyagent.py", "print('tiny')\n")
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-agent\nVersion: 1.2\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    local = Distribution("tiny-agent", "1.2", (), local=LocalCode(path, "digest"))
    return CodeTree(local, "", (PYTHON.version,), ("-c", "pass"))


def test_a_cached_archive_that_has_changed_is_built_again(tree: CodeTree) -> None:
    built = codetree.build(tree, PYTHON)
    right = built.read_bytes()
    built.write_bytes(right[: len(right) // 2])
    assert codetree.build(tree, PYTHON).read_bytes() == right, "a truncated archive would be sent to the machine"
    built.write_bytes(right + b"tampered")
    assert codetree.build(tree, PYTHON).read_bytes() == right, "a modified archive would be sent to the machine"
    changed = built.stat().st_mtime_ns
    codetree.build(tree, PYTHON)
    assert built.stat().st_mtime_ns == changed, "an intact archive was built again"


def test_a_cached_tool_that_has_changed_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PaddockError("it would have to be fetched")

    monkeypatch.setattr(codetree, "fetch", refuse)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    sha512 = "5c9b" * 32
    kept = tmp_path / "cache/paddock/code" / f"driver-{sha512[:16]}.tgz"
    kept.parent.mkdir(parents=True)
    with tarfile.open(kept, "w:gz") as tar:
        entry = tarfile.TarInfo("package/driver")
        entry.size = 4
        tar.addfile(entry, BytesIO(b"evil"))
    tool = Tool("driver", "1.0.0", sha512, {PYTHON.arch: "package/driver"})
    with suppress(PaddockError):
        codetree._put_tool(tool, PYTHON.arch, tmp_path / "packages")
    put = tmp_path / "packages/driver"
    assert not put.exists(), f"a program with another hash would be sent to the machine: {put.read_bytes()!r}"


# --- printed commands


def test_features_in_commands_for_root_are_one_word() -> None:
    features = "mount=nfs;reboot,nesting=1"
    lines = root_work.commands(RootWork(101, "110000:110000", features=features, template=900))
    for line in lines[:2]:
        assert shlex.split(line)[-2:] == ["-features", features]
        # Split as the shell of the node splits it.
        words = list(shlex.shlex(line, posix=True, punctuation_chars=True))
        assert ";" not in words, f"root would also run what follows the semicolon: {line}"


def test_the_printed_command_that_reattaches_a_volume_is_one_command() -> None:
    value = "local-lvm:vm-101-disk-1,mp=/data;reboot,size=1G"
    line = root_worker._put_back(101, "mp0", value).partition("put it back: ")[2]
    words = list(shlex.shlex(line, posix=True, punctuation_chars=True))
    assert ";" not in words, f"root would also run what follows the semicolon: {line}"
    assert shlex.split(line)[-1] == value


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "tmp"
    folder.mkdir(mode=0o1777)
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def left_by_a_demo(folder: Path) -> Path:
    folder.mkdir()
    (folder / "pid").write_text("999999999")
    (folder / "pids").write_text("1 $(reboot) 999999999\n")
    return folder


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can create files of another user")
def test_no_cleanup_command_is_printed_for_another_users_folder(
    temporary: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = left_by_a_demo(temporary / "pvebox-stage-x;reboot")
    os.chown(folder, NOBODY, NOBODY)
    stage.report_killed()
    said = capsys.readouterr().err
    assert "rm -r" not in said, f"the user is told to run a command with another user's file name: {said}"


def test_the_users_own_folder_is_quoted_in_the_cleanup_command(
    temporary: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = left_by_a_demo(temporary / "pvebox-stage-x;reboot")
    stage.report_killed()
    lines = capsys.readouterr().err.splitlines()
    assert shlex.split(lines[-1]) == ["rm", "-r", "--", str(folder)], f"{lines[-1]} does something else"
    assert lines[1].split() == ["kill", "1"]


def test_no_module_prints_a_removal_command_with_an_unquoted_name() -> None:
    """A new module with such a command has to be listed here, with a reason."""
    quoted = ["runtimes/engine/runtime.py"]  # it is part of a script, with shlex.join
    source = Path(cli.__file__).parents[1]
    printing = [
        str(path.relative_to(source))
        for path in source.rglob("*.py")
        if any(words in path.read_text() for words in ("rm -r", "rm -f", "rmdir "))
    ]
    assert printing == quoted, f"{printing} prints a command with a name in it that is not quoted"


def test_bootstrap_does_not_write_the_output_of_apt_through_a_link(tmp_path: Path) -> None:
    """`bootstrap.sh` runs as root, and every user can create files in /tmp."""
    text = (SCRIPTS / "bootstrap.sh").read_text()
    begin = text.index("apt_install() {")
    function = text[begin : text.index("\n}\n", begin) + 3]
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/apt-get").write_text("#!/bin/sh\necho apt says this\n")
    (tmp_path / "bin/apt-get").chmod(0o755)
    canary, log = tmp_path / "canary", tmp_path / "paddock-setup.abcdef"
    canary.write_text("the host's own")
    log.touch()
    Path(f"{log}.apt").symlink_to(canary)
    script = f"say() {{ :; }}\ndie() {{ exit 1; }}\n{function}\nlog=$1\napt_install some-package"
    environment = {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "TMPDIR": str(tmp_path)}
    subprocess.run(["bash", "-c", script, "bash", str(log)], env=environment, check=True)
    assert canary.read_text() == "the host's own", "root wrote to a file that another user chose"
    assert not list(tmp_path.glob("paddock-apt.*"))
