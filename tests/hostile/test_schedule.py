"""Root's scheduled run: nothing that another account can change runs as root."""

from __future__ import annotations

import os
import pwd
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from cli.conftest import Paddock, Said, paddock
from paddock.base import process
from paddock.verbs import schedule
from paddock.verbs.schedule import header_for

__all__ = ["paddock"]
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, whose timers they are")

FILE = """\
project: home
places: {{here: {{host: {{}}}}}}
agents:
  web:
    kind: service
    place: here
    runtime: process
    command: [sleep, inf]
    secrets: {{A: {secret}}}
    documents: {{NOTES.md: {{file: notes.md}}}}
    backup: {{to: ./backups}}
notify: {{command: {notify}}}
"""
OWNER = "daemon"
UID = pwd.getpwnam(OWNER).pw_uid


class Agents:
    """A folder of root with a file, beside which other accounts may have files too."""

    def __init__(self, top: Path) -> None:
        self.top, self.folder, self.file = top, top / "agents", top / "agents/paddock.yaml"
        self.ran = top / "ran"
        self.folder.mkdir()
        (self.folder / "notes.md").write_text("notes")
        self.program = self.folder / "tell"
        self.program.write_text(f"#!/bin/sh\nid -u >>{self.ran}\n")
        self.program.chmod(0o755)
        self.write()

    def write(self, secret: str = "{env: NO_SUCH_VARIABLE}", notify: str = "[./tell]") -> None:
        self.file.write_text(FILE.format(secret=secret, notify=notify))

    def run_by(self) -> list[str]:
        """Return the accounts that the command has run as."""
        return self.ran.read_text().split() if self.ran.exists() else []


@pytest.fixture
def agents(monkeypatch: pytest.MonkeyPatch) -> Iterator[Agents]:
    top = Path(tempfile.mkdtemp(prefix="paddock-timer-", dir="/tmp"))  # other accounts can enter it
    top.chmod(0o755)
    made = Agents(top)
    monkeypatch.chdir(made.folder)
    yield made
    monkeypatch.undo()
    shutil.rmtree(top)


def give(path: Path, uid: int = UID) -> None:
    os.chown(path, uid, uid)


@pytest.fixture
def dropped(monkeypatch: pytest.MonkeyPatch) -> list[Sequence[str]]:
    """The commands that a run as another account would start."""
    found: list[Sequence[str]] = []

    def stream(argv: Sequence[str], out: Callable[[str], None], err: Callable[[str], None], **options: object) -> int:
        assert options == {"own_session": True}
        found.append(argv)
        out("from the \x1b[8m owner")
        return 7

    monkeypatch.setattr(process, "stream", stream)
    return found


def test_a_run_of_roots_own_files_is_as_before(paddock: Paddock, agents: Agents) -> None:
    assert paddock("approve", "--yes").code == 0
    said = paddock("schedule", "run")
    assert (said.code, "has no state on its machine yet" in said.err) == (1, True), said
    assert agents.run_by() == ["0"]  # backup failed


def what_another_account_owns(agents: Agents) -> dict[str, Path]:
    (agents.top / "secret").write_text("x")
    (agents.top / "secret").chmod(0o600)
    agents.write(secret="{file: ../secret}")
    return {
        "the file": agents.file,
        "its folder": agents.folder,
        "a folder above": agents.top,
        "a document": agents.folder / "notes.md",
        "a secret": agents.top / "secret",
        "a program": agents.program,
    }


@pytest.mark.parametrize(
    "which", ["the file", "its folder", "a folder above", "a document", "a secret", "a program", "two files"]
)
def test_what_another_account_can_change_is_never_run_as_root(
    paddock: Paddock, agents: Agents, dropped: list[Sequence[str]], which: str
) -> None:
    found = what_another_account_owns(agents)
    assert paddock("approve", "--yes").code == 0
    for path in [found["the file"], found["a document"]] if which == "two files" else [found[which]]:
        give(path)
    refused = paddock("schedule", "install")
    assert refused.code == 4, refused
    assert "other accounts can change what root's timer would run" in refused.err
    assert f"belongs to {OWNER}" in refused.err
    assert f"sudo -iu {OWNER} paddock schedule --file {agents.file}" in refused.err
    assert "cp -RL --no-preserve=all" in refused.err
    assert paddock("schedule", "install", "--dry-run").code == 4
    assert dropped == []

    said = paddock("schedule", "run")
    assert said.code == 7
    assert f"running as {OWNER}" in said.err
    assert said.out == "from the \\x1b[8m owner\n"
    [argv] = dropped
    assert [*argv[:5]] == ["setpriv", f"--reuid={UID}", f"--regid={UID}", "--init-groups", "--inh-caps=-all"]
    assert [*argv[-4:]] == ["schedule", "run", "--file", str(agents.file)]
    assert agents.run_by() == []


@pytest.mark.parametrize("why", ["everyone", "two accounts", "an account without a name", "nobody"])
def test_what_no_single_account_owns_is_refused(
    paddock: Paddock, agents: Agents, dropped: list[Sequence[str]], why: str
) -> None:
    if why == "everyone":
        agents.folder.chmod(0o777)
    else:
        give(agents.file, pwd.getpwnam("nobody").pw_uid if why == "nobody" else 4_000_000)
    if why == "two accounts":
        give(agents.folder)
    for verb in ("install", "run"):
        said = paddock("schedule", verb)
        assert said.code == 4
        assert "other accounts can change" in said.err
        assert f"running as {OWNER}" not in said.err
        assert "sudo -iu" not in said.err
        assert "cp -RL" in said.err
    assert dropped == []
    assert agents.run_by() == []


def test_a_hostile_file_is_not_even_read_as_root(
    paddock: Paddock, agents: Agents, dropped: list[Sequence[str]]
) -> None:
    agents.file.write_text("this: [is not a file\n")
    give(agents.file)
    assert paddock("schedule", "run").code == 7
    agents.file.unlink()
    os.mkfifo(agents.file)
    give(agents.file)
    assert paddock("schedule", "run").code == 7


def test_a_document_that_was_exchanged_between_two_looks_is_read_again(
    paddock: Paddock, agents: Agents, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the sticky /tmp, a file of another account can give way to one of root between reading and looking."""
    from paddock.verbs import scheduled, trusted_files

    notes = agents.folder / "notes.md"
    notes.write_text("planted")
    looked = trusted_files.of_loaded

    def exchange(*arguments: object) -> object:
        notes.write_text("root's own")
        return looked(*arguments)  # type: ignore[arg-type]

    used: list[str] = []
    monkeypatch.setattr(trusted_files, "of_loaded", exchange)

    def run(loaded: object, _: object) -> list[str]:
        used.append(agents.folder.joinpath("notes.md").read_text())
        assert [*loaded.spec.agents] == ["web"]  # type: ignore[attr-defined]
        return []

    monkeypatch.setattr(scheduled, "run", run)
    reads: list[str] = []
    original = Path.read_text

    def read(path: Path, *arguments: object, **options: object) -> str:
        text = original(path, *arguments, **options)  # type: ignore[arg-type]
        if path.name == "notes.md":
            reads.append(text)
        return text

    monkeypatch.setattr(Path, "read_text", read)
    assert paddock("approve", "--yes").code == 0
    reads.clear()
    assert paddock("schedule", "run").code == 0
    assert reads[0] == "planted"
    assert "root's own" in reads[1:]


def test_another_accounts_paddock_is_never_scheduled_for_root(
    paddock: Paddock, agents: Agents, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = agents.top / "python"
    program.symlink_to(sys.executable)
    os.chown(program, UID, UID, follow_symlinks=False)
    monkeypatch.setattr(sys, "executable", str(program))
    said = paddock("schedule", "install")
    assert said.code == 4
    assert f"{program} belongs to {OWNER}" in said.err
    assert "install Paddock where only root can write" in said.err


def test_the_owner_gets_nothing_of_roots(agents: Agents, paddock: Paddock, monkeypatch: pytest.MonkeyPatch) -> None:
    """A real run as the owner, with a program in place of Python that other accounts may not enter here."""
    probe = agents.top / "probe"
    probe.write_text(
        "#!/usr/bin/env -S sh\n"
        "echo \"uid $(id -u) gid $(id -g) groups $(id -G)\"; env; echo \"fds $(ls /proc/self/fd | tr '\\n' ' ')\"\n"
        "grep -E 'Cap(Eff|Prm|Inh)' /proc/self/status; (: </dev/tty) 2>/dev/null && echo terminal; exit 3\n"
    )
    probe.chmod(0o755)
    give(agents.folder)
    give(agents.file)
    monkeypatch.setattr(sys, "executable", str(probe))
    monkeypatch.setenv("PADDOCK_AGE_KEY", "AGE-SECRET-KEY-ROOTS")
    monkeypatch.setenv("TOKEN", "roots-token")
    said = paddock("schedule", "run")
    assert said.code == 3, said
    assert f"uid {UID} gid {UID} groups {UID}" in said.out
    assert "ROOTS" not in said.out
    assert "roots-token" not in said.out
    assert f"HOME={pwd.getpwnam(OWNER).pw_dir}" in said.out
    assert "fds 0 1 2 3 \n" in said.out
    assert said.out.count("0000000000000000") == 3, said.out
    assert "terminal" not in said.out


def said_by(approve: bool, paddock: Paddock, *words: str) -> Said:
    if approve:
        assert paddock("approve", "--yes").code == 0
    return paddock(*words)


@pytest.mark.parametrize("evidence", ["unit", "journal"])
def test_a_schedule_from_before_approvals_goes_on_and_asks_for_what_is_new(
    paddock: Paddock, agents: Agents, monkeypatch: pytest.MonkeyPatch, evidence: str
) -> None:
    units = agents.top / "units"
    units.mkdir()
    monkeypatch.setattr(schedule, "_SYSTEM", units)
    if evidence == "unit":
        (units / "paddock-backup-home.service").write_text(f"{header_for(str(agents.file))}\n[Unit]\n")
    else:
        from paddock.show.journal import Journal

        Journal("schedule-run", [agents.file])
    assert paddock("schedule", "run").code == 1  # no state yet
    assert agents.run_by() == ["0"]
    agents.write(notify="[./tell, again]")
    said = paddock("schedule", "run")
    assert said.code == 4
    assert "notify.command: ./tell again" in said.err
    assert agents.run_by() == ["0"]


def test_a_schedule_that_never_ran_needs_an_approval(
    paddock: Paddock, agents: Agents, monkeypatch: pytest.MonkeyPatch
) -> None:
    units = agents.top / "units"
    units.mkdir()
    monkeypatch.setattr(schedule, "_SYSTEM", units)
    (units / "paddock-backup-home.service").write_text(f"{header_for('/srv/other.yaml')}\n")
    assert paddock("schedule", "run").code == 4
    # The refused run is no evidence for the next one.
    assert paddock("schedule", "run").code == 4
    assert agents.run_by() == []
    installed = paddock("schedule", "install")
    assert installed.code == 4
    assert "notify.command: ./tell" in installed.err


def test_a_url_is_told_that_a_schedule_needs_an_approval(
    paddock: Paddock, agents: Agents, monkeypatch: pytest.MonkeyPatch
) -> None:
    from paddock.core import notify

    agents.write(secret="{command: [pass, a]}")
    agents.file.write_text(agents.file.read_text().replace("{command: [./tell]}", "{url: {env: HOOK}}"))
    monkeypatch.setenv("HOOK", "http://127.0.0.1:9/")
    sent: list[bytes] = []
    monkeypatch.setattr(notify, "_post", lambda _url, message: sent.append(message))
    assert paddock("schedule", "run").code == 4
    assert len(sent) == 1
    assert b"backup failed" in sent[0]
    assert b"pass a" in sent[0]


@pytest.mark.parametrize(("result", "shown"), [("exit-code", True), ("success", False), (None, False)])
def test_status_shows_a_scheduled_run_that_failed(
    paddock: Paddock, agents: Agents, monkeypatch: pytest.MonkeyPatch, result: str | None, shown: bool
) -> None:
    units, programs = agents.top / "units", agents.top / "bin"
    units.mkdir()
    programs.mkdir()
    monkeypatch.setattr(schedule, "_SYSTEM", units)
    if result:
        (units / "paddock-backup-home.service").write_text(f"{header_for(str(agents.file))}\n")
    (programs / "systemctl").write_text(
        f"#!/bin/sh\necho Result={result}\necho ExecMainStatus=4\necho ExecMainExitTimestamp=Thu 2026-11-19 03:30\n"
    )
    (programs / "systemctl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    said = said_by(True, paddock, "status")
    line = "failed with code 4 on Thu 2026-11-19 03:30; `journalctl -u paddock-backup-home.service` says why"
    assert (said.code, line in said.out) == (0, shown), said
    assert ('"schedule"' in paddock("status", "--json").out) == shown
