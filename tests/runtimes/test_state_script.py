"""How `state/state.sh` writes files of a state, also when the agent has planted links and pipes there."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from paddock.base.process import CommandFailed
from paddock.base.secret import Secret
from paddock.channels.local import LocalGuest
from paddock.channels.onboard import ask
from paddock.file.agent_id import AgentId
from paddock.file.secrets.sources import Source
from paddock.kinds.service import ServiceSpec
from paddock.kinds.workload import Keep, Process, SecretFile, StateFile, Workload
from paddock.onboard.configure import received_verified
from paddock.onboard.state.home import Home
from paddock.plan.agent import AgentSeen
from paddock.runtimes.bundle import Bundle, BundleFile
from paddock.runtimes.process.runtime import ForegroundProcess

UID = 54321
RUNTIME = ForegroundProcess(
    AgentId("home", "toy"), ServiceSpec.model_validate({"kind": "service", "place": "here", "command": ["true"]})
)
SOURCE = Source(env="AUTH")
WORKLOAD = Workload(
    processes=(Process("main", ("true",), {}, "/", stop_seconds=1),),
    files=(),
    directories=(".hermes/cron", "my work"),
    generated=(),
    state_files=(
        StateFile("my work/SOUL.md", "planted\n"),
        StateFile(".hermes/notes.md", "seeded\n", Keep.SEEDED),
        StateFile(".hermes/.env", "locked\n", Keep.LOCKED),
    ),
)

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: the agent is another user")


@dataclass(frozen=True)
class Lab:
    """A state whose agent is another user than Paddock."""

    owner: str

    @property
    def home(self) -> Path:
        return Path(RUNTIME.paths.home)

    def apply(self, workload: Workload = WORKLOAD, **secret_files: str) -> str:
        bundle = RUNTIME.bundle(workload, None, mounted=False)
        settings = bundle.files["bundle.env"].content.replace('OWNER=""', f'OWNER="{self.owner}"')
        bundle = Bundle({**bundle.files, "bundle.env": BundleFile(settings)})
        sent = bundle.sent({}, {name: Secret(value) for name, value in secret_files.items()})
        return "".join(f"{line}\n" for line in ask(LocalGuest(), "applying", RUNTIME.apply(sent), into=list[str]))

    def observe(self) -> AgentSeen:
        return ask(LocalGuest(), "observing", RUNTIME.observe(()), into=AgentSeen)

    def agent(self, script: str) -> subprocess.CompletedProcess[str]:
        """Run a script as the agent, in its home."""
        user = ["setpriv", "--reuid", str(UID), "--regid", str(UID), "--clear-groups"] if self.owner else []
        return subprocess.run([*user, "sh", "-c", script], cwd=self.home, capture_output=True, text=True, check=False)


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    # Not pytest's own folder: no other user can pass through that.
    folder = Path(tempfile.mkdtemp(prefix="paddock-state-"))
    (folder / "paddock/toy").mkdir(parents=True)
    for each in (folder, folder / "paddock", folder / "paddock/toy"):
        each.chmod(0o711)
    monkeypatch.setenv("XDG_DATA_HOME", str(folder))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(params=["", pytest.param(f"{UID}:{UID}", marks=as_root)], ids=["same-user", "another-user"])
def lab(request: pytest.FixtureRequest, folder: Path) -> Lab:
    return Lab(request.param)


@pytest.fixture
def foreign(folder: Path) -> Lab:
    return Lab(f"{UID}:{UID}")


def text(lab: Lab, path: str) -> str:
    return (lab.home / path).read_text()


def test_apply_removes_what_a_killed_run_had_begun_to_write(lab: Lab) -> None:
    lab.apply(secret(overwrite=True), **{"0": "a key"})
    for path in ("my work/SOUL.md", ".hermes/.env", ".hermes/auth.json"):
        begun = lab.home / f"{path}.paddock-a1B2c3"
        begun.write_text("half a ")
        if lab.owner:
            os.chown(begun, UID, UID)
    lab.apply(secret(overwrite=True), **{"0": "another key"})
    assert text(lab, ".hermes/auth.json") == "another key"
    assert list(lab.home.rglob("*.paddock-*")) == []


def test_apply_creates_the_files_and_directories_of_the_state_for_the_agent(lab: Lab) -> None:
    lab.apply()
    assert text(lab, "my work/SOUL.md") == "planted\n"
    assert text(lab, ".hermes/notes.md") == "seeded\n"
    assert text(lab, ".hermes/.env") == "locked\n"
    owner = UID if lab.owner else os.geteuid()
    for path in ("my work", "my work/SOUL.md", ".hermes/cron", ".hermes/notes.md"):
        assert (lab.home / path).stat().st_uid == owner, path
    assert (lab.home / "my work/SOUL.md").stat().st_mode & 0o777 == 0o600


def test_apply_rewrites_planted_files_and_keeps_seeded_ones(lab: Lab) -> None:
    lab.apply()
    assert lab.agent("echo mine > 'my work/SOUL.md'; echo mine > .hermes/notes.md").returncode == 0
    told = lab.apply()
    assert text(lab, "my work/SOUL.md") == "planted\n"
    assert text(lab, ".hermes/notes.md") == "mine\n"
    assert told == ".hermes/notes.md has the agent's own text, which is kept; the text of the file was written once\n"


def test_apply_deletes_a_planted_file_that_left_the_file_unless_the_agent_changed_it(lab: Lab) -> None:
    more = (StateFile("my work/AGENTS.md", "both\n"), StateFile("my work/changed.md", "both\n"))
    assert lab.apply(replace(WORKLOAD, state_files=(*WORKLOAD.state_files, *more))) == ""
    assert lab.agent("echo mine >> 'my work/changed.md'").returncode == 0
    lab.apply()
    assert not (lab.home / "my work/AGENTS.md").exists()
    assert text(lab, "my work/changed.md") == "both\nmine\n"
    assert text(lab, "my work/SOUL.md") == "planted\n"


@as_root
@pytest.mark.parametrize("trap", ["mkfifo 'my work/a.md'", "ln -s {victim} 'my work/a.md'"])
def test_a_planted_file_that_became_a_trap_is_not_followed(foreign: Lab, trap: str) -> None:
    victim = foreign.home.parents[3] / "victim"
    victim.write_text("same\n")
    foreign.apply(replace(WORKLOAD, state_files=(StateFile("my work/a.md", "same\n"),)))
    assert foreign.agent(f"rm 'my work/a.md' && {trap.format(victim=victim)}").returncode == 0
    foreign.apply()
    assert victim.read_text() == "same\n"
    assert os.path.lexists(foreign.home / "my work/a.md")


# None of them changes anything, so that one state is enough for all.
ATTEMPTS = (
    "echo x > .hermes/.env",
    "echo x >> .hermes/.env",
    "chmod u+w .hermes/.env",
    "rm -f .hermes/.env",
    "echo x > new; mv -f new .hermes/.env",
    "ln -sf /dev/null .hermes/.env",
    "mv .hermes away",
    "rmdir .hermes",
    "chmod 700 .hermes",
    "mv ../home ../away",
    "mv ../.paddock ../away",
)


@as_root
def test_the_agent_can_read_a_locked_file_and_cannot_replace_it(foreign: Lab) -> None:
    foreign.apply()
    for attempt in ATTEMPTS:
        tried = foreign.agent(attempt)
        assert tried.returncode != 0, attempt
        assert "ermi" in tried.stderr or "denied" in tried.stderr.lower(), attempt
        assert foreign.agent("cat .hermes/.env").stdout == "locked\n", attempt


@as_root
def test_the_agent_can_create_files_beside_locked_ones(foreign: Lab) -> None:
    foreign.apply()
    made = foreign.agent(
        "mkdir .hermes/memories && echo a > .hermes/memories/M && mv .hermes/memories .hermes/m && echo b > x"
    )
    assert made.returncode == 0, made.stderr


@as_root
def test_locking_keeps_the_agents_earlier_file_under_another_name(foreign: Lab) -> None:
    foreign.apply(replace(WORKLOAD, state_files=()))
    assert foreign.agent("mkdir -p .hermes && echo KEY=1 > .hermes/.env").returncode == 0
    foreign.apply()
    assert text(foreign, ".hermes/.env") == "locked\n"
    kept = list((foreign.home / ".hermes").glob(".env.found-*"))
    assert [each.read_text() for each in kept] == ["KEY=1\n"], "the agent's file is kept"
    assert foreign.agent("echo x > .hermes/.env").returncode != 0


def test_a_locked_file_is_written_again_only_if_it_differs(lab: Lab) -> None:
    lab.apply()
    locked = lab.home / ".hermes/.env"
    first = locked.stat().st_ino
    lab.apply()
    assert locked.stat().st_ino == first
    locked.chmod(0o644)
    lab.apply()
    assert locked.stat().st_mode & 0o777 == 0o444
    locked.unlink()
    locked.write_text("other\n")
    locked.chmod(0o444)
    lab.apply()
    assert text(lab, ".hermes/.env") == "locked\n"
    elsewhere = lab.home / "second name"
    os.link(locked, elsewhere)
    lab.apply()
    assert (locked.stat().st_nlink, elsewhere.stat().st_nlink) == (1, 1)


@as_root
def test_a_file_of_the_agent_with_the_same_text_becomes_roots(foreign: Lab) -> None:
    foreign.apply(replace(WORKLOAD, state_files=()))
    made = foreign.agent("mkdir -p .hermes && echo locked > .hermes/.env && chmod 444 .hermes/.env")
    assert made.returncode == 0, made.stderr
    foreign.apply()
    assert foreign.agent("chmod u+w .hermes/.env").returncode != 0
    assert text(foreign, ".hermes/.env") == "locked\n"


def test_apply_deletes_a_file_that_is_no_longer_locked(lab: Lab) -> None:
    lab.apply()
    lab.apply(replace(WORKLOAD, state_files=(StateFile(".hermes/config.yaml", "x", Keep.LOCKED),)))
    assert not (lab.home / ".hermes/.env").exists()
    assert lab.agent("echo mine > .hermes/.env").returncode == 0
    lab.apply(replace(WORKLOAD, state_files=(StateFile(".hermes/config.yaml", "x", Keep.LOCKED),)))
    assert text(lab, ".hermes/.env") == "mine\n"


@as_root
def test_unlocking_deletes_no_file_outside_the_state(foreign: Lab) -> None:
    foreign.apply()
    elsewhere = foreign.home.parents[3] / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / ".env").write_text("precious")
    for path in (foreign.home, foreign.home / ".hermes"):  # as a restore by somebody else may leave them
        os.chown(path, UID, UID)
        path.chmod(0o700)
    assert foreign.agent(f"mv .hermes away && ln -s {elsewhere} .hermes").returncode == 0
    foreign.apply(replace(WORKLOAD, state_files=()))
    assert (elsewhere / ".env").read_text() == "precious"
    assert foreign.agent("rm -rf .hermes && touch x").returncode == 0, (
        "an unlocked directory belongs to the agent again"
    )


@as_root
@pytest.mark.parametrize("trap", ["ln -s {victim} {path}", "mkfifo {path}", "mkdir {path}", "ln {victim} {path}"])
def test_apply_writes_nothing_through_entries_that_the_agent_planted(foreign: Lab, trap: str) -> None:
    victims = [foreign.home.parents[3] / f"victim{number}" for number in range(3)]
    for victim in victims:
        victim.write_text("precious\n")
        victim.chmod(0o666 if trap.startswith("ln {") else 0o600)  # whoever may write a file may give it a second name
    foreign.apply(replace(WORKLOAD, state_files=()))
    for victim, path in zip(victims, ("'my work/SOUL.md'", ".hermes/notes.md", ".hermes/.env"), strict=True):
        laid = foreign.agent(f"mkdir -p .hermes; rm -rf {path}; {trap.format(victim=victim, path=path)}")
        assert laid.returncode == 0, laid.stderr
    before = [victim.stat() for victim in victims]
    foreign.apply()
    for victim, found in zip(victims, before, strict=True):
        after = victim.stat()
        assert victim.read_text() == "precious\n"
        assert (after.st_uid, after.st_gid, after.st_mode) == (found.st_uid, found.st_gid, found.st_mode)
    assert text(foreign, "my work/SOUL.md") == "planted\n"
    assert text(foreign, ".hermes/.env") == "locked\n"
    assert not (foreign.home / ".hermes/.env").is_symlink()


@as_root
@pytest.mark.parametrize("link", [".hermes", "my work"])
def test_root_writes_nothing_through_a_directory_that_became_a_link(foreign: Lab, link: str) -> None:
    elsewhere = foreign.home.parents[3] / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    foreign.apply(replace(WORKLOAD, state_files=(), directories=()))
    assert foreign.agent(f"ln -s {elsewhere} '{link}'").returncode == 0
    if link == ".hermes":
        foreign.apply()
        assert foreign.agent("cat .hermes/.env").stdout == "locked\n"
    else:
        with pytest.raises(CommandFailed, match="ermission denied"):
            foreign.apply()
    assert list(elsewhere.iterdir()) == []
    assert (elsewhere.stat().st_uid, elsewhere.stat().st_mode & 0o777) == (0, 0o700)


@as_root
def test_apply_repairs_wrong_owners_inside_the_home_only(foreign: Lab) -> None:
    foreign.apply()
    right, wrong = foreign.home / ".hermes/right", foreign.home / ".hermes/wrong"
    foreign.agent("echo a > .hermes/right")
    (foreign.home / "of root").mkdir()
    for path in (wrong, foreign.home / "of root/deep"):
        path.write_text("restored as root")
    outside = foreign.home.parents[3] / "outside"
    outside.write_text("x")
    (foreign.home / "link").symlink_to(outside)
    (foreign.home / "second name").hardlink_to(outside)
    untouched = right.stat().st_ctime_ns
    foreign.apply()
    assert right.stat().st_ctime_ns == untouched
    for path in (wrong, foreign.home / "of root", foreign.home / "of root/deep"):
        assert path.stat().st_uid == UID, path
    assert outside.stat().st_uid == 0
    assert (foreign.home / ".hermes/.env").stat().st_uid == 0
    assert (foreign.home / ".hermes").stat().st_uid == 0


def secret(*, overwrite: bool) -> Workload:
    return replace(WORKLOAD, secret_files=(SecretFile(".hermes/auth.json", SOURCE, overwrite),))


def test_a_seeded_secret_file_is_written_once_and_kept_nowhere_else(lab: Lab) -> None:
    lab.apply(secret(overwrite=False), **{"0": '{"token": "first"}'})
    file = lab.home / ".hermes/auth.json"
    assert (file.read_text(), file.stat().st_mode & 0o777) == ('{"token": "first"}', 0o600)
    assert lab.agent("echo refreshed > .hermes/auth.json").returncode == 0
    lab.apply(secret(overwrite=False), **{"0": '{"token": "second"}'})
    assert file.read_text() == "refreshed\n"
    etc = Path(RUNTIME.paths.etc).parent
    assert list((etc / "secret-files").iterdir()) == []
    assert not [path for path in etc.rglob("*") if path.is_file() and "token" in path.read_text()]


def test_going_back_does_not_need_a_secret_file_that_was_written_once(lab: Lab) -> None:
    lab.apply(secret(overwrite=False), **{"0": "first"})
    etc = Path(RUNTIME.paths.etc).parent
    bundle = (etc / "current").readlink()
    (etc / "answered").write_text(f"{bundle}\n")
    assert lab.agent("echo refreshed > .hermes/auth.json").returncode == 0
    found = received_verified(RUNTIME.deployed, "")
    with found as going_back:
        Home(str(etc), going_back.bundle, f"{going_back.folder}/secret-files").write()
    assert text(lab, ".hermes/auth.json") == "refreshed\n"


def test_a_secret_file_with_overwrite_is_written_by_every_apply(lab: Lab) -> None:
    lab.apply(secret(overwrite=True), **{"0": "first"})
    lab.agent("echo refreshed > .hermes/auth.json")
    lab.apply(secret(overwrite=True), **{"0": "second"})
    assert text(lab, ".hermes/auth.json") == "second"
    kept = Path(RUNTIME.paths.etc).parent / "secret-files/0"
    assert (kept.read_text(), kept.stat().st_mode & 0o777) == ("second", 0o400)


def test_a_secret_file_with_overwrite_is_reported_when_the_agent_has_changed_it(lab: Lab) -> None:
    lab.apply(secret(overwrite=True), **{"0": "first"})
    assert lab.observe().changed == ()
    for change in (
        "echo more >> .hermes/auth.json",
        "rm .hermes/auth.json",
        "rm .hermes/auth.json && ln -s /etc/shadow .hermes/auth.json",
        "rm .hermes/auth.json && mkfifo .hermes/auth.json",
    ):
        assert lab.agent(change).returncode == 0
        assert lab.observe().changed == (".hermes/auth.json",)
        lab.apply(secret(overwrite=True), **{"0": "first"})
        assert lab.observe().changed == ()
        assert text(lab, ".hermes/auth.json") == "first"
    lab.apply(secret(overwrite=False), **{"0": "first"})
    lab.agent("echo refreshed > .hermes/auth.json")
    assert lab.observe().changed == ()


def test_a_state_path_with_a_line_break_is_refused() -> None:
    bad = replace(WORKLOAD, state_files=(StateFile("a\nlock\t0\tb", ""),))
    with pytest.raises(ValueError, match="cannot be"):
        RUNTIME.bundle(bad, None, mounted=False)


@as_root
def test_apply_makes_a_directory_outside_of_the_state_for_the_agent(foreign: Lab, folder: Path) -> None:
    desk, existing = folder / "srv/work/desk", folder / "existing"
    existing.mkdir(mode=0o755)
    outside = replace(WORKLOAD, directories=(str(desk), str(existing)))
    foreign.apply(outside)
    assert desk.stat().st_uid == UID
    assert desk.parent.stat().st_uid == existing.stat().st_uid == 0
    foreign.apply(outside)
    assert desk.stat().st_uid == UID


@as_root
def test_apply_makes_no_directory_where_others_can_plant_a_link(foreign: Lab, folder: Path) -> None:
    (folder / "of-someone").mkdir()
    os.chown(folder / "of-someone", UID + 1, UID + 1)
    with pytest.raises(CommandFailed, match=r"others can write to .*/of-someone"):
        foreign.apply(replace(WORKLOAD, directories=(str(folder / "of-someone/below/desk"),)))
    (folder / "link").symlink_to("/root")
    with pytest.raises(CommandFailed, match=r"others can write to .*/link"):
        foreign.apply(replace(WORKLOAD, directories=(str(folder / "link/desk"),)))
