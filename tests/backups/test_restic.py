"""Backups in a restic repository, with the real restic."""

from __future__ import annotations

import inspect
import io
import json
import os
import pickle
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from backups.repositories import new_repository, prepared
from backups.state import State
from built import built
from levels import LEVEL, by_level, slow_proof
from onboard.streams import SOURCE, sent
from paddock.backups.contract import Drill
from paddock.backups.open import destination_for
from paddock.backups.repository import Repository
from paddock.backups.restic import ResticDestination
from paddock.backups.verified import Incomplete, Verified, check
from paddock.base.errors import BadInput, PaddockError
from paddock.base.process import ProgramMissing
from paddock.file.agent_id import AgentId
from paddock.file.models.backup import BackupSpec, ResticSpec
from paddock.file.secrets.sources import Source
from paddock.onboard.stream.layout import matcher
from sshd import free_port, sshd

pytestmark = pytest.mark.skipif(shutil.which("restic") is None, reason="restic is not installed")

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
PASSWORD = "a word that nobody guesses"
HERMES = AgentId("home", "hermes")


def destination(
    repository: Path | str, agent: AgentId = HERMES, say: Callable[[str], None] = print
) -> ResticDestination:
    spec = ResticSpec(repository=str(repository), password=Source(env="REPOSITORY_PASSWORD"))
    return ResticDestination(Repository(spec, Path("/")), agent, say)


@pytest.fixture(autouse=True)
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPOSITORY_PASSWORD", PASSWORD)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return new_repository(tmp_path / "repository", PASSWORD)


@pytest.fixture(scope="module")
def stream(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    home = tmp_path_factory.mktemp("agent") / "home"
    (home / "memories").mkdir(parents=True)
    (home / "memories/MEMORY.md").write_text("the gate code is 7421\n")
    (home / "--exclude=*").write_text("a name like an option")
    (home / "data").write_bytes(os.urandom(3 << 20))
    return sent(home)


def verified(stream: bytes | io.RawIOBase) -> Verified:
    source: Any = io.BytesIO(stream) if isinstance(stream, bytes) else stream
    return Verified(source, matcher(["memories/*.md"]), lambda count: None)


def restic(repository: Path, *arguments: str, stdin: bytes = b"") -> str:
    command = ["restic", "--repo", str(repository), *arguments]
    environment = {**os.environ, "RESTIC_PASSWORD": PASSWORD}
    return subprocess.run(command, input=stdin, env=environment, check=True, capture_output=True).stdout.decode()


def snapshots(repository: Path) -> list[dict[str, Any]]:
    return json.loads(restic(repository, "snapshots", "--json")) or []


def expect_only_complete_backups(found: ResticDestination, read: frozenset[str] = frozenset()) -> frozenset[str]:
    """Read every backup in the list completely, except those that were read before; return the names of all."""
    listed = found.backups()
    for each in (each for each in listed if each.name not in read):
        with found.read(each) as back:
            assert check(back)["agent"] == "home_hermes"
    return frozenset(each.name for each in listed)


def test_a_backup_comes_back(repository: Path, stream: bytes) -> None:
    found = destination(repository)
    found.check()
    backup = found.save(verified(stream), NOON)
    [listed] = found.backups()
    assert (listed.name, listed.made, listed.size) == ("2026-11-16T12-00-00Z", NOON, backup.size)
    for key, value in listed.about.items():
        assert backup.about.get(key) == value
    assert (listed.about["files"], listed.about["version"]) == (3, "0.19.0")
    with found.read(listed) as back:
        assert back.read() == stream
    assert found.texts(listed) == {"memories/MEMORY.md": "the gate code is 7421\n"}
    assert list((repository / "locks").iterdir()) == []

    archive = restic(repository, "ls", "--json", "latest", "--path", "/home_hermes.tar")
    assert json.loads(archive.splitlines()[0])["hostname"] == "home"


def test_removed_backups_leave_nothing_and_the_others_stay(repository: Path, stream: bytes) -> None:
    found = destination(repository)
    for hours in range(2):
        found.save(verified(stream), NOON + timedelta(hours=hours))
    first, second = found.backups()
    found.remove([first])
    assert found.backups() == [second]
    assert len(expect_only_complete_backups(found)) == 1
    found.remove([second])
    assert snapshots(repository) == []
    assert [path for path in (repository / "data").rglob("*") if path.is_file()] == []


def test_agents_do_not_see_the_backups_of_others(repository: Path, stream: bytes) -> None:
    destination(repository).save(verified(stream), NOON)
    other = destination(repository, AgentId("home", "atlas"))
    assert other.backups() == []
    other.remove([])
    assert len(destination(repository).backups()) == 1


@pytest.mark.parametrize("cut", [0, 0.5, 0.99])
def test_a_stream_that_ends_early_leaves_no_snapshot_and_no_lock(repository: Path, stream: bytes, cut: float) -> None:
    with pytest.raises(Incomplete):
        destination(repository).save(verified(stream[: int(cut * len(stream.rstrip(b"\0")))]), NOON)
    assert snapshots(repository) == []
    assert list((repository / "locks").iterdir()) == []


def test_a_snapshot_of_a_broken_pipe_does_not_count(repository: Path, stream: bytes) -> None:
    tags = "--tag=paddock,agent=home_hermes,backup=2026-11-16T12-00-00Z"
    restic(repository, "backup", "--stdin", "--stdin-filename=home_hermes.tar", tags, stdin=stream[: 1 << 20])
    found = destination(repository)
    assert len(snapshots(repository)) == 1
    assert found.backups() == []
    found.remove([])
    assert len(snapshots(repository)) == 1, "it is younger than a day: another run may be about to complete it"


def test_unfinished_snapshots_are_removed_after_a_day(repository: Path, stream: bytes) -> None:
    found = destination(repository)
    found.save(verified(stream), NOON)
    tags = "--tag=paddock,agent=home_hermes,backup=2020-01-01T00-00-00Z"
    old = ["--time", "2020-01-01 00:00:00"]
    restic(repository, "backup", "--stdin", "--stdin-filename=home_hermes.tar", tags, *old, stdin=b"half")
    mark = f"{tags},complete,of={'0' * 64}"
    restic(repository, "backup", "--stdin", "--stdin-filename=home_hermes.json", mark, *old, stdin=b"{}")
    restic(repository, "backup", "--stdin", "--stdin-filename=of-the-user", *old, stdin=b"not of Paddock")
    found.remove([])
    assert sorted(each["paths"][0] for each in snapshots(repository)) == [
        "/home_hermes.json",
        "/home_hermes.tar",
        "/of-the-user",
    ]
    assert len(expect_only_complete_backups(found)) == 1


def altering(folder: Path, monkeypatch: pytest.MonkeyPatch, filter_: str) -> None:
    """Make restic save something else than it is given, and report success."""
    script = f'case "$*" in *hermes.tar*) {filter_} | {{restic}} "$@";; *) exec {{restic}} "$@";; esac'
    program(folder, monkeypatch, script)


def test_a_snapshot_counts_only_after_its_end_was_read_back(
    repository: Path, stream: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    altering(tmp_path, monkeypatch, "{ head -c 2000000; cat >/dev/null; }")
    with pytest.raises(Incomplete, match=f"has 2000000 of {len(stream)} bytes"):
        destination(repository).save(verified(stream), NOON)
    assert len(snapshots(repository)) == 1
    assert destination(repository).backups() == []


def test_a_manifest_that_is_not_the_one_that_was_sent_is_noticed(
    repository: Path, stream: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    altering(tmp_path, monkeypatch, "sed 's/0.19.0/0.18.2/'")
    with pytest.raises(Incomplete, match="is not the one that was sent"):
        destination(repository).save(verified(stream), NOON)
    assert destination(repository).backups() == []


def test_tags_that_a_user_changes_do_not_hide_a_backup(repository: Path, stream: bytes) -> None:
    found = destination(repository)
    found.save(verified(stream), NOON)
    restic(repository, "tag", "--add", "precious")
    assert len(expect_only_complete_backups(found)) == 1


# Failures


def program(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Put a program `restic` before the real one."""
    real = shutil.which("restic")
    path = folder / "bin/restic"
    path.parent.mkdir()
    path.write_text("#!/bin/sh\n" + script.replace("{restic}", str(real)))
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{path.parent}:{os.environ['PATH']}")


def test_a_repository_is_created_at_the_first_backup(tmp_path: Path, stream: bytes) -> None:
    said: list[str] = []
    found = destination(tmp_path / "new", say=said.append)
    assert found.backups() == []
    found.check()
    assert said == [f"there is no restic repository in {tmp_path}/new yet: `restic init` creates it"]
    found.check()
    assert len(said) == 1
    found.save(verified(stream), NOON)
    assert len(found.backups()) == 1


def test_a_wrong_password_is_reported(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPOSITORY_PASSWORD", "another word")
    for ask in (destination(repository).check, destination(repository).backups):
        with pytest.raises(BadInput) as caught:
            ask()
        assert caught.value.message == f"the password of the restic repository {repository} is wrong"


def test_the_lock_of_a_killed_restic_is_reported_with_a_hint(repository: Path, stream: bytes) -> None:
    found = destination(repository)
    killed = subprocess.Popen(
        ["restic", "--repo", str(repository), "backup", "--stdin"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        env={**os.environ, "RESTIC_PASSWORD": PASSWORD},
    )
    while not list((repository / "locks").iterdir()):
        time.sleep(0.05)
    time.sleep(0.3)
    killed.kill()
    killed.communicate()
    found.save(verified(stream), NOON)  # a backup does not need the repository for itself
    with pytest.raises(PaddockError) as caught:
        found.remove([])
    host = re.escape(os.uname().nodename)
    assert re.fullmatch(
        rf"the restic repository \S+ is locked by PID {killed.pid} on {host}, for \d+s", caught.value.message
    )
    assert "`restic unlock`" in (caught.value.hint or "")
    restic(repository, "unlock")
    found.remove([])


def test_a_host_that_does_not_answer_is_reported() -> None:
    # restic may end before it has read what ssh says.
    with pytest.raises(PaddockError, match=r"sftp://127.0.0.1:\d+//x cannot be reached: (ssh: .*refused|unable to)"):
        destination(f"sftp://127.0.0.1:{free_port()}//x").check()


def test_a_missing_restic_is_reported(repository: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ProgramMissing, match="restic is not installed") as caught:
        destination(repository).check()
    assert caught.value.hint == "on Debian: `apt install restic`"


def test_a_damaged_repository_is_reported(repository: Path, stream: bytes) -> None:
    found = destination(repository)
    backup = found.save(verified(stream), NOON)
    pack = max(
        (path for path in (repository / "data").rglob("*") if path.is_file()), key=lambda path: path.stat().st_size
    )
    content = bytearray(pack.read_bytes())
    content[len(content) // 2] ^= 1
    pack.chmod(0o600)
    pack.write_bytes(content)
    with pytest.raises(PaddockError, match=r"is damaged: .*ciphertext verification failed"), found.read(backup) as back:
        check(back)


def test_nothing_secret_and_nothing_of_the_agent_is_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path, monkeypatch, f'echo "$@" >>{tmp_path}/argv; env >>{tmp_path}/env; echo "[]"')
    monkeypatch.setenv("KEY_OF_THE_BUCKET", "a key of a bucket")
    monkeypatch.setenv("RESTIC_PASSWORD_FILE", "/of/another/repository")
    spec = ResticSpec(
        repository="rest:https://me:pass-of-the-url@host/",
        password=Source(env="REPOSITORY_PASSWORD"),
        environment={"AWS_SECRET_ACCESS_KEY": Source(env="KEY_OF_THE_BUCKET")},
    )
    found = ResticDestination(Repository(spec, tmp_path), HERMES, print)
    found.check()
    assert found.backups() == []
    argv, given = (tmp_path / "argv").read_text(), (tmp_path / "env").read_text().splitlines()
    assert argv == "cat config\n--quiet snapshots --json --tag=paddock,agent=home_hermes\n"
    assert f"RESTIC_PASSWORD={PASSWORD}" in given
    assert "RESTIC_REPOSITORY=rest:https://me:pass-of-the-url@host/" in given
    assert "AWS_SECRET_ACCESS_KEY=a key of a bucket" in given
    assert not any(line.startswith("RESTIC_PASSWORD_FILE") for line in given)
    assert found.shown == "rest:https://me@host/"


@pytest.mark.parametrize(
    ("written", "location"),
    [
        ("backups", "local:/project/backups"),
        ("local:backups", "local:/project/backups"),
        ("/srv/restic", "local:/srv/restic"),
        ("--repo=/x", "local:/project/--repo=/x"),
        ("sftp:host:backups", "sftp:host:backups"),
        ("s3:https://host/bucket", "s3:https://host/bucket"),
    ],
)
def test_relative_repositories_start_at_the_folder_of_the_file(written: str, location: str) -> None:
    spec = ResticSpec(repository=written, password=Source(env="REPOSITORY_PASSWORD"))
    assert Repository(spec, Path("/project"))._environment["RESTIC_REPOSITORY"] == location


def test_the_destination_of_a_file_is_opened(repository: Path, stream: bytes) -> None:
    to = {"restic": {"repository": repository.name, "password": {"env": "REPOSITORY_PASSWORD"}}}
    found = destination_for(BackupSpec.model_validate({"to": to}), repository.parent, HERMES, print)
    assert found.shown == str(repository)
    found.save(verified(stream), NOON)
    assert len(expect_only_complete_backups(destination(repository))) == 1


@pytest.mark.parametrize("name", ["--repo=/x", "a,complete", "a b", "../x", ""])
def test_an_agent_whose_name_could_be_an_option_is_refused(repository: Path, name: str) -> None:
    with pytest.raises(PaddockError, match="cannot be a tag"):
        destination(repository, AgentId("", name))


def test_values_of_the_machine_cannot_become_tags(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    about = {"agent": "home_hermes", "kind": "--host=x", "version": f"1,of={'0' * 64}", "files": 7}
    found = destination(repository)
    found.save(verified(sent(tmp_path / "home", about=about)), NOON)
    [listed] = found.backups()
    assert (listed.about["kind"], listed.about["version"], listed.about["files"]) == (None, None, 0)


# Deduplication


def used(repository: Path) -> int:
    return sum(path.stat().st_size for path in repository.rglob("*") if path.is_file())


# For each place with changes restic stores several pieces again, of about 2 MiB each. That is little of a large state.
SIZE = by_level(64, 320) << 20
MOST = by_level(20, 5)  # percent
ONE_PERCENT = SIZE // 100


CHANGES: dict[str, Callable[[State], None]] = {
    "in a large file": lambda state: state.change_media(ONE_PERCENT),
    "in files beside each other, with other sizes": lambda state: state.change_sessions(ONE_PERCENT, 1000),
    "in new files, behind most others": lambda state: state.add_sessions(ONE_PERCENT),
    "in new files, before all others": lambda state: state.add_sessions(ONE_PERCENT, "a"),
    "at the end of the database": lambda state: state.add_messages(ONE_PERCENT),
}


@pytest.fixture
def saved_state(tmp_path: Path) -> tuple[State, Path]:
    """A state, and a repository with its first backup. They take much longer to make than to copy."""

    def build(folder: Path) -> None:
        state = State(folder / "home", SIZE)
        (folder / "state").write_bytes(pickle.dumps(state))
        destination(new_repository(folder / "repository", PASSWORD)).save(verified(sent(state.home)), NOON)

    inputs = f"{SIZE} {inspect.getsource(State)} {prepared(PASSWORD).name} {SOURCE}"
    folder = built("restic-state", inputs, build)
    found: State = pickle.loads((folder / "state").read_bytes())
    found.home = folder / "home"
    return found.copied_to(tmp_path / "home"), Path(shutil.copytree(folder / "repository", tmp_path / "repository"))


@pytest.mark.parametrize("what", CHANGES if LEVEL == "all" else list(CHANGES)[1:3])
def test_a_second_backup_with_one_percent_changed_adds_at_most_five(saved_state: tuple[State, Path], what: str) -> None:
    state, repository = saved_state
    found = destination(repository)
    first = used(repository)
    assert first > 0.95 * SIZE
    CHANGES[what](state)
    found.save(verified(sent(state.home)), NOON + timedelta(days=1))
    added = used(repository) - first
    print(f"{what}: {added / first:.1%}")
    assert 0.5 <= 100 * added / first <= MOST


# Killed at any moment

# Saves a backup in a new process for each line that it reads. To import what that needs takes longer than to save.
SAVE = """
import os, sys
from datetime import datetime, UTC
from pathlib import Path
from backups.test_restic import destination, verified
stream = Path(sys.argv[2]).read_bytes()
for _ in sys.stdin:
    child = os.fork()
    if not child:
        destination(sys.argv[1]).save(verified(stream), datetime.now(UTC).replace(microsecond=0))
        os._exit(0)
    os.setpgid(child, child)
    print(child, flush=True)
    print("done" if os.waitpid(child, 0)[1] == 0 else "killed", flush=True)
"""


@pytest.mark.parametrize("whom", ["Paddock", "Paddock and restic"])
def test_every_listed_backup_is_complete_after_a_kill_at_any_moment(
    repository: Path, stream: bytes, tmp_path: Path, whom: str
) -> None:
    (tmp_path / "stream").write_bytes(stream)
    command = [sys.executable, "-c", SAVE, str(repository), str(tmp_path / "stream")]
    tests = Path(__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": f"{os.environ.get('PYTHONPATH', '')}:{tests}"}
    found = destination(repository)
    done = 0
    read: frozenset[str] = frozenset()
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as starter:
        assert starter.stdin
        assert starter.stdout
        for _ in range(by_level(3, 20)):
            starter.stdin.write("\n")
            child = int(starter.stdout.readline())
            time.sleep(random.uniform(0, 2))
            with suppress(ProcessLookupError):
                (os.kill if whom == "Paddock" else os.killpg)(child, signal.SIGKILL)
            done += starter.stdout.readline() == "done\n"
            wait_for_group(child)
            read = expect_only_complete_backups(found, read)
            assert len(read) >= done
    found.save(verified(stream), NOON)
    assert len(expect_only_complete_backups(found)) >= done + 1


def wait_for_group(group: int) -> None:
    """Wait until the programs that a killed process started have ended."""
    for _ in range(600):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    pytest.fail("restic did not end after Paddock was killed")


# Over sftp

SSH = """\
#!/bin/sh
exec /usr/bin/ssh -F none -i {folder}/id -o IdentitiesOnly=yes -o StrictHostKeyChecking=no \\
    -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR "$@"
"""


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """An sshd that serves files."""
    folder = tmp_path / "server"
    (folder / "bin").mkdir(parents=True)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "id")], check=True)
    (folder / "bin/ssh").write_text(SSH.format(folder=folder))
    (folder / "bin/ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}/bin:{os.environ['PATH']}")
    with sshd(folder, folder / "id.pub", "Subsystem sftp internal-sftp\nPermitRootLogin yes\n") as running:
        yield running


class Cut(io.RawIOBase):
    """A stream that calls something when half of it was read."""

    def __init__(self, stream: bytes, then: Callable[[], object]) -> None:
        self._source = io.BytesIO(stream)
        self._half = len(stream) // 2
        self._then: Callable[[], object] | None = then

    def read(self, size: int = -1) -> bytes:
        if self._then and self._source.tell() >= self._half:
            self._then()
            self._then = None
        return self._source.read(min(size, 1 << 18))


@slow_proof
def test_a_connection_that_is_cut_at_half_leaves_nothing_that_counts(
    server: Any, repository: Path, tmp_path: Path
) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home/data").write_bytes(os.urandom(80 << 20))
    large = sent(tmp_path / "home")
    found = destination(f"sftp://root@127.0.0.1:{server.port}/{repository}")
    found.check()
    cut: list[int] = []
    with pytest.raises(PaddockError, match="cannot be reached"):
        found.save(verified(Cut(large, lambda: cut.append(server.cut_connections()))), NOON)
    assert cut == [1]
    assert found.backups() == []
    found.save(verified(large), NOON)
    assert len(expect_only_complete_backups(found)) == 1


def test_the_last_drill_is_kept_beside_the_backups(repository: Path, stream: bytes) -> None:
    found = destination(repository)
    assert found.last_drill() is None
    first = Drill("2026-11-16T12-00-00Z", NOON, 12.5, "the database is damaged")
    second = replace(first, failure=None)
    found.note_drill(first)
    found.note_drill(second)
    assert found.last_drill() == second
    assert found.backups() == []
    found.remove([])
    assert found.last_drill() == second
