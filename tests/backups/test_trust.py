"""Who made a backup: a plain one does not replace an encrypted one, and an unsigned one not a signed one."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import typer
import zstandard
from pyrage import encrypt, x25519

from backups.repositories import new_repository
from backups.verbs import Agent
from onboard.streams import sent
from paddock.backups.contract import Backup, BackupsSeen, NotProven
from paddock.backups.folder import FolderDestination
from paddock.backups.repository import AppendOnly, Repository
from paddock.backups.restic import ResticDestination
from paddock.backups.signing import NAMESPACE, Signatures, judged
from paddock.backups.verified import Incomplete, Verified, check
from paddock.base.errors import BadInput, Exit, PaddockError, Refused
from paddock.file.agent_id import AgentId
from paddock.file.models.backup import ResticSpec
from paddock.file.models.quantities import Duration
from paddock.file.secrets.sources import Source
from paddock.onboard.stream.layout import matcher

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> x25519.Identity:
    made = x25519.Identity.generate()
    monkeypatch.setenv("PADDOCK_AGE_KEY", str(made))
    return made


def stream_of(folder: Path, memory: str) -> bytes:
    """Return the stream of a home with one memory."""
    (folder / "memories").mkdir(parents=True, exist_ok=True)
    (folder / "memories/MEMORY.md").write_text(memory)
    return sent(folder)


def verified(stream: bytes) -> Verified:
    return Verified(io.BytesIO(stream), matcher(["memories/*.md"]), lambda count: None)


def new_key(folder: Path, name: str) -> Path:
    """Make an ssh key without a passphrase."""
    folder.mkdir(exist_ok=True, parents=True)
    path = folder / name
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(path)], check=True)
    return path


def allow(allowed: Path, key: Path, who: str, options: str = "") -> None:
    """Add a key to a file of allowed signers."""
    public = " ".join(Path(f"{key}.pub").read_text().split()[:2])
    with allowed.open("a") as file:
        file.write(f"{who} {options}{' ' if options else ''}{public}\n")


@pytest.fixture
def signatures(tmp_path: Path) -> Signatures:
    own = new_key(tmp_path / "keys", "laptop")
    allow(tmp_path / "allowed_signers", own, "alice@laptop")
    return Signatures(tmp_path / "allowed_signers", own)


# Encryption


@pytest.fixture
def encrypted(tmp_path: Path, key: x25519.Identity) -> FolderDestination:
    made = FolderDestination(tmp_path / "backups/home_hermes", [str(key.to_public())])
    made.check()
    return made


def plain(of: FolderDestination) -> FolderDestination:
    return replace(of, recipients=[])


def test_a_plain_archive_beside_the_encrypted_one_is_not_read(encrypted: FolderDestination, tmp_path: Path) -> None:
    stream = stream_of(tmp_path / "home", "own\n")
    backup = encrypted.save(verified(stream), NOON)
    planted = stream_of(tmp_path / "other", "planted\n")
    (encrypted.folder / f"{backup.name}.tar.zst").write_bytes(zstandard.compress(planted))
    texts = {"memories/MEMORY.md": "planted\n"}
    (encrypted.folder / f"{backup.name}.texts.json.zst").write_bytes(zstandard.compress(json.dumps(texts).encode()))
    for destination in (encrypted, plain(encrypted)):
        [found] = destination.backups()
        assert found.encrypted
        with destination.read(found) as back:
            assert back.read() == stream
        assert destination.texts(found) == {"memories/MEMORY.md": "own\n"}


def test_a_plain_backup_after_an_encrypted_one_is_not_used(encrypted: FolderDestination, tmp_path: Path) -> None:
    stream = stream_of(tmp_path / "home", "own\n")
    older = plain(encrypted).save(verified(stream), NOON - HOUR)
    own = encrypted.save(verified(stream), NOON)
    planted = plain(encrypted).save(verified(stream), NOON + HOUR)
    found = encrypted.backups()
    assert [each.distrust is None for each in found] == [True, True, False]
    assert [each.name for each in found] == [older.name, own.name, planted.name]
    with pytest.raises(Refused, match="an older one"), encrypted.read(found[2]):
        pass
    seen = BackupsSeen.of(encrypted, Duration.parse("2d"))
    assert seen.newest is not None
    assert seen.newest.name == own.name
    assert all(each.distrust is None for each in plain(encrypted).backups()), "the file asks for no encryption"


def test_the_first_of_each_kind_decides() -> None:
    listed = [Backup(f"{hour}", NOON + hour * HOUR, 1, {}, encrypted=hour == 2, signed=hour == 1) for hour in range(4)]
    found = judged([*reversed(listed)], encrypts=True, verifies=True)
    assert [each.name for each in found] == ["0", "1", "2", "3"]
    assert [each.distrust.final if each.distrust else None for each in found] == [None, None, False, True]
    assert all(each.distrust is None for each in judged(listed, encrypts=False, verifies=False))


# Signatures


@pytest.fixture
def signed(tmp_path: Path, signatures: Signatures) -> FolderDestination:
    made = FolderDestination(tmp_path / "backups/home_hermes", [], signatures)
    made.check()
    return made


def test_a_signed_backup_says_who_made_it(signed: FolderDestination, tmp_path: Path) -> None:
    stream = stream_of(tmp_path / "home", "own\n")
    signed.save(verified(stream), NOON)
    [backup] = signed.backups()
    proof = signed.proven(backup).proof
    assert proof is not None
    assert (proof.by, signed.signer(backup)) == ("alice@laptop", "alice@laptop")
    with signed.read(backup) as back:
        assert check(back, signed=proof.manifest)["agent"] == "home_hermes"


def test_ssh_keygen_alone_verifies_it(signed: FolderDestination, tmp_path: Path) -> None:
    backup = signed.save(verified(stream_of(tmp_path / "home", "own\n")), NOON)
    assert signed.signatures is not None
    description = signed.folder / f"{backup.name}.json"
    command = ["ssh-keygen", "-Y", "verify", "-f", str(signed.signatures.allowed), "-I", "alice@laptop"]
    command += ["-n", NAMESPACE, "-s", f"{description}.sig"]
    subprocess.run(command, stdin=description.open("rb"), check=True, stdout=subprocess.DEVNULL)
    unpacked = zstandard.ZstdDecompressor().stream_reader((signed.folder / f"{backup.name}.tar.zst").open("rb")).read()
    manifest = subprocess.run(["tar", "-xO", "manifest.json"], input=unpacked, capture_output=True, check=True).stdout
    hashed = subprocess.run(["sha256sum"], input=manifest, capture_output=True, check=True).stdout.decode().split()[0]
    assert json.loads(description.read_text())["manifest"] == hashed


def test_another_archive_below_the_signature_is_noticed(signed: FolderDestination, tmp_path: Path) -> None:
    backup = signed.save(verified(stream_of(tmp_path / "home", "own\n")), NOON)
    planted = stream_of(tmp_path / "other", "planted\n")
    (signed.folder / f"{backup.name}.tar.zst").write_bytes(zstandard.compress(planted))
    proof = signed.proven(signed.backups()[0]).proof
    assert proof is not None
    with (
        signed.read(backup) as back,
        pytest.raises(Incomplete, match="not the one that was signed"),
    ):
        check(back, signed=proof.manifest)


def test_other_texts_below_the_signature_are_noticed(signed: FolderDestination, tmp_path: Path) -> None:
    signed.save(verified(stream_of(tmp_path / "home", "own\n")), NOON)
    backup = signed.proven(signed.backups()[0])
    assert signed.texts(backup) == {"memories/MEMORY.md": "own\n"}
    texts = zstandard.compress(json.dumps({"memories/MEMORY.md": "planted\n"}).encode())
    (signed.folder / f"{backup.name}.texts.json.zst").write_bytes(texts)
    assert signed.texts(backup) is None


def changed_description(folder: FolderDestination, backup: Backup) -> None:
    path = folder.folder / f"{backup.name}.json"
    path.write_text(path.read_text().replace('"files": ', '"files": 1'))


def other_name(folder: FolderDestination, backup: Backup) -> None:
    """Bring an old backup back under a newer name."""
    for path in folder.folder.glob(f"{backup.name}.*"):
        path.rename(path.with_name(path.name.replace("T12", "T18")))


def other_namespace(folder: FolderDestination, backup: Backup) -> None:
    path = folder.folder / f"{backup.name}.json"
    Path(f"{path}.sig").unlink()
    assert folder.signatures is not None
    command = ["ssh-keygen", "-q", "-Y", "sign", "-f", str(folder.signatures.key), "-n", "git", str(path)]
    subprocess.run(command, check=True)


def by_a_stranger(folder: FolderDestination, backup: Backup) -> None:
    path = folder.folder / f"{backup.name}.json"
    Path(f"{path}.sig").unlink()
    stranger = new_key(folder.folder.parent / "stranger", "stranger")
    command = ["ssh-keygen", "-q", "-Y", "sign", "-f", str(stranger), "-n", NAMESPACE, str(path)]
    subprocess.run(command, check=True)


def no_signature(folder: FolderDestination, backup: Backup) -> None:
    (folder.folder / f"{backup.name}.json.sig").write_bytes(os.urandom(300))


def a_pipe(folder: FolderDestination, backup: Backup) -> None:
    (folder.folder / f"{backup.name}.json.sig").unlink()
    os.mkfifo(folder.folder / f"{backup.name}.json.sig")


def endless(folder: FolderDestination, backup: Backup) -> None:
    with (folder.folder / f"{backup.name}.json.sig").open("r+b") as file:
        file.truncate(1 << 40)


FORGERIES = (changed_description, other_name, other_namespace, by_a_stranger, no_signature, a_pipe, endless)


@pytest.mark.parametrize("forge", FORGERIES, ids=lambda each: each.__name__)
def test_a_forged_signature_proves_nothing(forge: object, signed: FolderDestination, tmp_path: Path) -> None:
    backup = signed.save(verified(stream_of(tmp_path / "home", "own\n")), NOON)
    assert callable(forge)
    forge(signed, backup)
    [found] = signed.backups()
    with pytest.raises((NotProven, PaddockError)) as refused:
        signed.proven(found)
    assert "Traceback" not in refused.value.message
    assert signed.signer(found) == "not valid"


def test_former_keys_count_as_long_as_their_lines_are_kept(signed: FolderDestination, tmp_path: Path) -> None:
    stream = stream_of(tmp_path / "home", "own\n")
    signed.save(verified(stream), NOON)
    former = signed.signatures
    assert former is not None
    own = new_key(tmp_path / "keys", "next")
    allow(former.allowed, own, "alice@next")
    now = replace(signed, signatures=Signatures(former.allowed, own))
    now.check()
    now.save(verified(stream), NOON + HOUR)
    assert former.key is not None
    former.key.unlink()  # the laptop is lost
    assert [now.signer(each) for each in now.backups()] == ["alice@laptop", "alice@next"]
    former.allowed.write_text(former.allowed.read_text().split("\n")[1] + "\n")
    assert [now.signer(each) for each in now.backups()] == ["not valid", "alice@next"]
    with now.read(now.backups()[0]) as back:  # nothing is needed to read it
        assert back.read() == stream


def test_a_key_counts_for_the_time_that_its_line_says(signed: FolderDestination, tmp_path: Path) -> None:
    stream = stream_of(tmp_path / "home", "own\n")
    for at in (NOON, NOON + 48 * HOUR):
        signed.save(verified(stream), at)
    assert signed.signatures is not None
    assert signed.signatures.key is not None
    signed.signatures.allowed.unlink()
    allow(signed.signatures.allowed, signed.signatures.key, "alice@laptop", 'valid-before="20261117"')
    assert [signed.signer(each) for each in signed.backups()] == ["alice@laptop", "not valid"]


@pytest.mark.parametrize("what", ["no key", "passphrase", "not allowed"])
def test_a_key_that_cannot_sign_is_noticed_before_a_backup(what: str, signed: FolderDestination) -> None:
    assert signed.signatures is not None
    assert signed.signatures.key is not None
    if what == "no key":
        signed.signatures.key.unlink()
        Path(f"{signed.signatures.key}.pub").unlink()
    elif what == "passphrase":
        subprocess.run(["ssh-keygen", "-q", "-p", "-N", "secret", "-f", str(signed.signatures.key)], check=True)
    else:
        signed.signatures.allowed.write_text("")
    with pytest.raises(BadInput, match=r"cannot be signed|would not count"):
        signed.check()


@pytest.mark.skipif(shutil.which("restic") is None, reason="restic is not installed")
def test_a_backup_in_a_repository_is_signed_too(
    tmp_path: Path, signatures: Signatures, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPOSITORY_PASSWORD", "a word")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = new_repository(tmp_path / "repository", "a word")
    spec = ResticSpec(repository=str(folder), password=Source(env="REPOSITORY_PASSWORD"))
    unsigned = ResticDestination(Repository(spec, Path("/")), AgentId("home", "hermes"), print)
    signed = replace(unsigned, signatures=signatures)
    signed.check()
    stream = stream_of(tmp_path / "home", "own\n")
    for at, destination in enumerate((unsigned, signed, unsigned)):
        destination.save(verified(stream), NOON + at * HOUR)
    older, own, later = signed.backups()
    assert [each.distrust is None for each in (older, own, later)] == [True, True, False]
    proof = signed.proven(own).proof
    assert proof is not None
    assert proof.by == "alice@laptop"
    with signed.read(own) as back:
        assert check(back, signed=proof.manifest)["agent"] == "home_hermes"
    assert signed.texts(signed.proven(own)) == {"memories/MEMORY.md": "own\n"}
    for each in (older, later):
        with pytest.raises(NotProven):
            signed.proven(each)
    with pytest.raises(NotProven, match="about another backup"):
        signed.proven(replace(own, name=later.name))


class AppendOnlyHandler(BaseHTTPRequestHandler):
    """A repository as restic's REST backend wants it, in a folder, as `rest-server --append-only` keeps it."""

    protocol_version = "HTTP/1.1"
    folder: Path

    def place(self) -> Path:
        return self.folder / self.path.partition("?")[0].strip("/")

    def reply(self, status: int, content: bytes = b"", kind: str = "application/octet-stream") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def do_GET(self) -> None:
        place = self.place()
        if place.is_file():
            content, (first, _, last) = place.read_bytes(), self.headers.get("Range", "bytes=-")[6:].partition("-")
            self.reply(206 if first else 200, content[int(first or 0) : int(last) + 1 if last else None])
        elif self.path.endswith("/"):
            found = [each for each in place.rglob("*") if each.is_file()]
            listed = [{"name": each.name, "size": each.stat().st_size} for each in found]
            self.reply(200, json.dumps(listed).encode(), "application/vnd.x.restic.rest.v2")
        else:
            self.reply(404)

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_POST(self) -> None:
        content, place = self.rfile.read(int(self.headers["Content-Length"])), self.place()
        if place.exists() or "create=true" in self.path:
            self.reply(403)
            return
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
        self.reply(200)

    def do_DELETE(self) -> None:
        if "/locks/" not in self.path:
            self.reply(403)
            return
        self.place().unlink()
        self.reply(200)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Print nothing."""


@pytest.mark.skipif(shutil.which("restic") is None, reason="restic is not installed")
def test_backups_in_an_append_only_repository_can_be_made_and_read_and_not_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPOSITORY_PASSWORD", "a word")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    handler = type("Handler", (AppendOnlyHandler,), {"folder": new_repository(tmp_path / "repository", "a word")})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        address = f"rest:http://127.0.0.1:{server.server_address[1]}/"
        spec = ResticSpec(repository=address, password=Source(env="REPOSITORY_PASSWORD"))
        destination = ResticDestination(Repository(spec, Path("/")), AgentId("home", "hermes"), print)
        destination.check()
        stream = stream_of(tmp_path / "home", "own\n")
        backup = destination.save(verified(stream), NOON)
        with destination.read(backup) as back:
            assert back.read() == stream
        destination.remove([])  # nothing to remove, which is no failure
        hurry = replace(destination, repository=replace(destination.repository, until=time.monotonic() + 8))
        with pytest.raises(PaddockError, match=r"append-only|did not answer in time"):
            hurry.remove([backup])
        assert [each.name for each in destination.backups()] == [backup.name]
        server.shutdown()


# The verbs


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Agent:
    for name in ("XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    return Agent.up(tmp_path, "./backups", tmp_path / "xdg_data_home")


def with_backup(agent: Agent, more: str) -> None:
    """Give the agent more keys of `backup`."""
    text = agent.file.read_text()
    start = text.index("backup: {")
    agent.file.write_text(f"{text[:start]}backup: {{to: ./backups{more}}}}}\n")


def learn(agent: Agent, memory: str) -> str:
    """Let the agent learn something and back it up; return the name of the backup."""
    (agent.home / "memories/MEMORY.md").write_text(memory)
    before = {path.stem for path in agent.backups.glob("*Z.json")}
    agent.run("backup")
    [made] = {path.stem for path in agent.backups.glob("*Z.json")} - before
    return made


def memory(agent: Agent) -> str:
    return (agent.home / "memories/MEMORY.md").read_text()


def at_a_terminal(monkeypatch: pytest.MonkeyPatch, answers: list[bool]) -> list[str]:
    """Answer questions as a person does; return the list that gets the questions."""
    asked: list[str] = []

    def confirm(question: str, **_: object) -> bool:
        asked.append(question)
        return answers.pop(0)

    monkeypatch.setattr(sys, "stdin", type("Terminal", (io.StringIO,), {"isatty": lambda self: True})())
    monkeypatch.setattr(typer, "confirm", confirm)
    return asked


@pytest.fixture
def not_a_terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with Path(os.devnull).open() as nothing, monkeypatch.context() as patch:
        patch.setattr(sys, "stdin", nothing)
        yield


def test_an_older_plain_backup_is_restored_after_a_question(
    agent: Agent, key: x25519.Identity, monkeypatch: pytest.MonkeyPatch, not_a_terminal: None
) -> None:
    older = learn(agent, "older\n")
    with_backup(agent, f", recipients: [{key.to_public()}]")
    learn(agent, "newer\n")
    refused = agent.refused("restore", "web", older, "--yes")
    assert refused.exit_code == Exit.NEEDS_PERSON
    assert "it is not encrypted" in refused.message
    assert memory(agent) == "newer\n"
    asked = at_a_terminal(monkeypatch, [False])
    assert agent.refused("restore", "web", older, "--yes").message == "nothing was changed"
    assert "may be somebody else's: it is not encrypted" in asked[0]
    at_a_terminal(monkeypatch, [True])
    agent.run("restore", "web", older, "--yes")
    assert memory(agent) == "older\n"


def test_no_verb_uses_a_plain_backup_that_was_planted_after_an_encrypted_one(
    agent: Agent, key: x25519.Identity, not_a_terminal: None
) -> None:
    with_backup(agent, f", keep: {{last: 1}}, recipients: [{key.to_public()}]")
    own = learn(agent, "own\n")
    planted = "2099-01-01T00-00-00Z"
    about = json.loads((agent.backups / f"{own}.json").read_text())
    (agent.backups / f"{planted}.json").write_text(json.dumps(about))
    stream = stream_of(agent.file.parent / "other", "planted\n")
    (agent.backups / f"{planted}.tar.zst").write_bytes(zstandard.compress(stream))
    texts = zstandard.compress(json.dumps({"x.md": "planted\n"}).encode())
    (agent.backups / f"{planted}.texts.json.zst").write_bytes(texts)
    for words in (["restore", "web", "--yes", "--unproven"], ["restore", "web", planted, "--yes"]):
        refused = agent.refused(*words)
        assert refused.exit_code == Exit.NEEDS_PERSON
        assert "is not used: it is not encrypted" in refused.message
    for words in (["backup", "check", "web"], ["memory", "web", "show"], ["drill", "web"]):
        assert "is not used: it is not encrypted" in agent.refused(*words).message
    assert "planted" not in agent.run("memory", "web", "history")
    assert "does not count" in agent.run("backup", "prune", "web")
    assert (agent.backups / f"{own}.tar.zst.age").exists(), "a planted backup pushed the only real one out"
    agent.run("restore", "web", own, "--yes")
    assert memory(agent) == "own\n"


def test_an_append_only_destination_fails_only_a_removal_that_the_file_asks_for(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    def remove(self: FolderDestination, backups: object) -> None:
        raise AppendOnly("it lets nothing be removed")

    monkeypatch.setattr(FolderDestination, "remove", remove)
    names = [learn(agent, f"{number}\n") for number in range(2)]
    assert all(name in agent.run("backup", "prune", "web") for name in names)
    with_backup(agent, ", keep: {last: 1}")
    assert "lets nothing be removed" in agent.refused("backup", "prune", "web").message


@pytest.fixture
def laptop(agent: Agent) -> Agent:
    """An agent whose backups are signed."""
    own = new_key(agent.file.parent / "keys", "laptop")
    allow(agent.file.parent / "allowed_signers", own, "alice@laptop")
    with_backup(agent, ", signatures: {key: keys/laptop, allowed: allowed_signers}")
    return agent


def test_restore_says_who_made_a_backup_and_when(laptop: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    name = learn(laptop, "own\n")
    assert "alice@laptop" in laptop.run("backup", "list")
    assert "signed by alice@laptop" in laptop.run("backup", "check", "web")
    asked = at_a_terminal(monkeypatch, [True])
    said = laptop.run("restore", "web")
    made = datetime.strptime(name, "%Y-%m-%dT%H-%M-%SZ").replace(tzinfo=UTC)
    for text in (asked[0], said):
        assert f"signed by alice@laptop on {made:%Y-%m-%d %H:%M} UTC" in text


def test_a_backup_that_nobody_signed_is_restored_after_a_question_or_with_an_option(
    agent: Agent, not_a_terminal: None
) -> None:
    older = learn(agent, "older\n")
    own = new_key(agent.file.parent / "keys", "laptop")
    allow(agent.file.parent / "allowed_signers", own, "alice@laptop")
    with_backup(agent, ", signatures: {key: keys/laptop, allowed: allowed_signers}")
    learn(agent, "signed\n")
    refused = agent.refused("restore", "web", older, "--yes")
    assert (refused.exit_code, "it is not signed" in refused.message) == (Exit.NEEDS_PERSON, True)
    agent.run("restore", "web", older, "--yes", "--unproven")
    assert memory(agent) == "older\n"
    with_backup(agent, "")
    later = learn(agent, "later\n")
    with_backup(agent, ", signatures: {key: keys/laptop, allowed: allowed_signers}")
    for words in (
        ["restore", "web", later, "--yes"],
        ["backup", "check", "web", later],
        ["memory", "web", "show", later],
    ):
        refused = agent.refused(*words)
        assert refused.exit_code == Exit.NEEDS_PERSON
        assert "an older one" in refused.message
    assert "an older one" in agent.run("backup", "list")
    agent.run("restore", "web", later, "--yes", "--unproven")
    assert memory(agent) == "later\n"


def test_another_state_below_the_signature_is_not_restored(laptop: Agent, key: x25519.Identity) -> None:
    """Who has the recipient, which is public, can encrypt another state for it."""
    with_backup(
        laptop,
        f", recipients: [{key.to_public()}], signatures: {{key: keys/laptop, allowed: allowed_signers}}",
    )
    name = learn(laptop, "own\n")
    stream = stream_of(laptop.file.parent / "other", "planted\n").replace(b"home_hermes", b"home_web___")
    archive = laptop.backups / f"{name}.tar.zst.age"
    kept = archive.read_bytes()
    archive.write_bytes(encrypt(zstandard.compress(stream), [key.to_public()]))
    learned = "newer\n"
    (laptop.home / "memories/MEMORY.md").write_text(learned)
    for words in (["restore", "web", name, "--yes"], ["backup", "check", "web", name]):
        assert "not the one that was signed" in laptop.refused(*words).message
    assert (memory(laptop), laptop.left()) == (learned, [])
    archive.write_bytes(kept)
    laptop.run("restore", "web", name, "--yes")
    assert memory(laptop) == "own\n"


def test_a_lost_laptop_makes_no_backup_unreadable(laptop: Agent, not_a_terminal: None) -> None:
    name = learn(laptop, "own\n")
    for path in (laptop.file.parent / "keys").iterdir():
        path.unlink()
    (laptop.file.parent / "allowed_signers").unlink()
    with_backup(laptop, ", signatures: {allowed: allowed_signers}")
    (laptop.home / "memories/MEMORY.md").write_text("newer\n")
    assert "allowed_signers" in laptop.refused("restore", "web", name, "--yes").message
    laptop.run("restore", "web", name, "--yes", "--unproven")
    assert memory(laptop) == "own\n"
