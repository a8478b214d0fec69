"""A backup that is damaged, foreign or hostile is refused by the verbs before the state is touched."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyrage import x25519

from backups.verbs import Agent
from levels import by_level
from onboard.test_hostile import HOSTILE, entry, put, special, stream
from paddock.base.errors import PaddockError

NAME = "2026-11-16T12-00-00Z"
OWN = {"format": 1, "agent": "home_web", "kind": "service", "version": None, "user": "x"}


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Agent:
    """An agent for all tests: none of them may change its state."""
    folder = tmp_path_factory.mktemp("deployed")
    with pytest.MonkeyPatch.context() as patch:
        use_home(folder, patch)
        agent = Agent.up(folder, "./backups", folder / "xdg_data_home")
    (agent.home / "data").write_bytes(bytes(range(256)) * 8)
    return agent


def use_home(folder: Path, patch: pytest.MonkeyPatch) -> None:
    for name in ("XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        patch.setenv(name, str(folder / name.lower()))


@pytest.fixture
def agent(deployed: Agent, monkeypatch: pytest.MonkeyPatch) -> Iterator[Agent]:
    use_home(deployed.file.parent, monkeypatch)
    kept = deployed.file.read_text()
    yield deployed
    deployed.file.write_text(kept)
    shutil.rmtree(deployed.backups)


def place(agent: Agent, tar: bytes, version: str | None = None) -> None:
    """Put an archive into the folder of backups, with a description that claims that it is a good one."""
    place_sealed(agent, zstandard.compress(tar), len(tar), version=version)


def place_sealed(agent: Agent, archive: bytes, size: int, suffix: str = "", version: str | None = None) -> None:
    agent.backups.mkdir(parents=True, exist_ok=True)
    (agent.backups / f"{NAME}.tar.zst{suffix}").write_bytes(archive)
    about = {**OWN, "files": 1, "bytes": size, "length": size, "version": version}
    (agent.backups / f"{NAME}.json").write_text(json.dumps(about))


def expect_refusals(agent: Agent) -> tuple[PaddockError, PaddockError]:
    """Check that neither verb accepts the backup, that both end soon, and that the state is as before."""
    before = agent.content()
    start = time.monotonic()
    checked = agent.refused("backup", "check", "web")
    restored = agent.refused("restore", "web", "--yes")
    assert time.monotonic() - start < 60
    assert agent.content() == before
    assert agent.left() == []
    for error in (checked, restored):
        assert "Traceback" not in error.message
        assert "\x1b" not in error.message
    return checked, restored


def manifest_of(*entries: dict[str, Any], **more: object) -> dict[str, Any]:
    return {**OWN, "entries": list(entries), **more}


def lying(keyword: str, value: str) -> bytes:
    """Return a stream with a file whose extended header does not tell the truth."""
    header, content = put("state/a", b"x" * 600)
    header.pax_headers = {keyword: value}
    return stream((header, content), manifest=manifest_of(entry("a", content=content)))


def huge_header(kind: bytes, size: int) -> bytes:
    header = tarfile.TarInfo("state/a")
    header.type, header.size = kind, size
    return header.tobuf() + bytes(2 << 20)


MORE: dict[str, bytes] = {
    "a file shorter than its header says": lying("size", "10000000"),
    "a file of a negative size": lying("size", "-1"),
    "a file of a size that is no number": lying("size", "many"),
    "a file with a hole that is larger than all": lying("GNU.sparse.realsize", "99999999999999"),
    "a header larger than the memory": huge_header(tarfile.XHDTYPE, 1 << 40),
    "a long name larger than the memory": huge_header(tarfile.GNUTYPE_LONGNAME, 1 << 40),
    "a header of two megabytes": huge_header(tarfile.XHDTYPE, 2 << 20),
    "a manifest with a mode that is no mode": stream(
        put("state/a", b"x"), manifest=manifest_of(entry("a", content=b"x", mode="rwx"))
    ),
    "a manifest with a time beyond all times": stream(
        put("state/a", b"x"), manifest=manifest_of(entry("a", content=b"x", mtime=1 << 80))
    ),
    "a manifest without owners": stream(put("state/a", b"x"), manifest=manifest_of({"path": "a", "type": "file"})),
    "a manifest with a name that is no text": stream(manifest=manifest_of({**entry("a", content=b"x"), "path": ["a"]})),
    "a manifest of another type": stream(manifest=manifest_of(entry("a", kind="pipe"))),
    "a name that controls a terminal": stream(
        special("state/\x1b]0;owned\x07\x1b[2J", tarfile.FIFOTYPE), manifest=manifest_of()
    ),
    "a name of 300 folders": stream(put("state/" + "a/" * 300 + "b", b"x"), manifest=manifest_of()),
    "another agent's": stream(manifest=manifest_of(agent="home_other")),
    "another kind's": stream(manifest=manifest_of(kind="hermes")),
    "another agent's with a name that controls a terminal": stream(manifest=manifest_of(agent="\x1b[2J")),
}


@pytest.mark.parametrize("what", [*HOSTILE, *MORE])
def test_a_hostile_archive_is_refused_before_the_state_is_touched(what: str, agent: Agent) -> None:
    place(agent, (HOSTILE | MORE)[what])
    expect_refusals(agent)
    assert not Path("/tmp/escaped").exists()


@pytest.mark.parametrize(("depth", "why"), [(9_000, "not a manifest"), (200_000, "larger than what it describes")])
def test_a_deeply_nested_manifest_is_refused(agent: Agent, depth: int, why: str) -> None:
    place(agent, stream(put("manifest.json", b"[" * depth), manifest=None))
    checked, _ = expect_refusals(agent)
    assert why in checked.message


@pytest.mark.parametrize("described", [{"agent": "home_other"}, {"kind": "hermes"}])
def test_the_description_of_another_agent_is_refused(agent: Agent, described: dict[str, str]) -> None:
    agent.run("backup")
    [made] = agent.backups.glob("*.json")
    made.write_text(json.dumps({**json.loads(made.read_text()), **described}))
    assert "is of" in agent.refused("restore", "web", "--yes").message


@pytest.mark.parametrize("text", ["", "[]", "{}", "7", "\x00", "[" * 100_000, '{"agent": 1}'])
def test_a_description_that_is_none_is_no_backup(agent: Agent, text: str) -> None:
    place(agent, stream(manifest=manifest_of()))
    (agent.backups / f"{NAME}.json").write_text(text)
    assert "has no backup" in agent.refused("restore", "web", "--yes").message
    assert NAME not in agent.run("backup", "list")


def test_texts_of_a_description_cannot_control_the_terminal(agent: Agent) -> None:
    place(agent, stream(manifest=manifest_of()), version="\x1b[2J1.0")
    done = paddock(agent, "backup", "list")
    assert (done.returncode, "\x1b" in done.stdout, "1.0" in done.stdout) == (0, False, True)


def paddock(agent: Agent, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "paddock", *words, "-f", str(agent.file)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_an_archive_for_another_key_is_refused(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    own, other = x25519.Identity.generate(), x25519.Identity.generate()
    monkeypatch.setenv("PADDOCK_AGE_KEY", str(other))
    agent.file.write_text(agent.file.read_text().replace("backups}", f"backups, recipients: [{other.to_public()}]}}"))
    agent.run("backup")
    monkeypatch.setenv("PADDOCK_AGE_KEY", str(own))
    for error in expect_refusals(agent):
        # A restore also saves the state of now, and says first that it could not read that again.
        assert "cannot be decrypted" in error.message or "PADDOCK_AGE_KEY is not of a recipient" in error.message
    monkeypatch.setenv("PADDOCK_AGE_KEY", str(other))
    agent.run("restore", "web", "--yes")


@pytest.mark.parametrize("archive", [b"", b"x" * 5000, zstandard.compress(b"x" * 5000)[:-3]])
@pytest.mark.parametrize("suffix", ["", ".age"])
def test_what_is_no_archive_is_refused(
    agent: Agent, archive: bytes, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PADDOCK_AGE_KEY", str(x25519.Identity.generate()))
    place_sealed(agent, archive, 5000, suffix)
    expect_refusals(agent)


def zeros(count: int) -> Iterator[bytes]:
    block = bytes(1 << 20)
    return (block for _ in range(count >> 20))


def bomb(start: bytes, more: int) -> bytes:
    """Return a small archive of many zeros."""
    compressor = zstandard.ZstdCompressor().compressobj()
    return b"".join([compressor.compress(start), *map(compressor.compress, zeros(more)), compressor.flush()])


@pytest.fixture(scope="module")
def bombs() -> Mapping[str, bytes]:
    size = by_level(1, 10) << 30
    header = tarfile.TarInfo("state/zeros")
    header.size = size
    text = tarfile.TarInfo("manifest.json")
    text.size = 400 << 20
    sparse = tarfile.TarInfo("state/map")
    sparse.size = size
    sparse.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": "5"}
    listed = sparse.tobuf(tarfile.PAX_FORMAT) + b"9999999999\n"
    return {
        "a file": bomb(header.tobuf(), size),
        "a manifest": bomb(text.tobuf(), 400 << 20),
        "a list of pieces": bomb(listed + b"0\n" * (8 << 20), 0),
    }


MEASURED = """
import runpy, sys
target = sys.argv.pop(1)
try:
    runpy.run_module("paddock", run_name="__main__", alter_sys=True)
finally:
    with open("/proc/self/status") as status, open(target, "w") as file:
        file.write(*[line.split()[1] for line in status if line.startswith("VmHWM")])
"""


@pytest.mark.parametrize("what", ["a file", "a manifest", "a list of pieces"])
def test_an_archive_that_grows_without_end_takes_little_time_and_memory(
    what: str, agent: Agent, bombs: Mapping[str, bytes], tmp_path: Path
) -> None:
    place_sealed(agent, bombs[what], 1000)
    expect_refusals(agent)
    used = tmp_path / "used"
    command = [sys.executable, "-c", MEASURED, str(used), "backup", "check", "web", "-f", str(agent.file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1, done.stderr
    assert int(used.read_text()) < 150 << 10


FLIP = st.tuples(st.just("flip"), st.integers(0, 1 << 30), st.integers(0, 7))
CUT = st.tuples(st.just("cut"), st.integers(0, 1 << 30), st.just(0))
SPLICE = st.tuples(st.just("splice"), st.integers(0, 1 << 30), st.integers(0, 1 << 30))


def mutated(content: bytes, how: tuple[str, int, int]) -> bytes:
    what, first, second = how
    at = first % len(content)
    if what == "flip":
        return content[:at] + bytes([content[at] ^ 1 << second]) + content[at + 1 :]
    if what == "cut":
        return content[:at]
    return content[:at] + content[second % len(content) :]


@settings(max_examples=by_level(15, 300), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.one_of(FLIP, CUT, SPLICE), min_size=1, max_size=3), st.booleans())
def test_a_mutated_archive_restores_the_same_state_or_is_refused(
    agent: Agent, changes: list[tuple[str, int, int]], compressed: bool
) -> None:
    """With `compressed` the archive itself is changed, otherwise the stream in it."""
    if not agent.backups.exists():
        agent.run("backup")
    archive = min(agent.backups.glob("*.tar.zst"))  # the later ones are of states that were replaced
    kept = archive.read_bytes()
    content = kept if compressed else zstandard.decompress(kept, max_output_size=1 << 26)
    for change in changes:
        content = mutated(content, change) if content else content
    before = without_times(agent)
    archive.write_bytes(content if compressed else zstandard.compress(content))
    try:
        with suppress(PaddockError):
            agent.run("restore", "web", "--yes")
    finally:
        archive.write_bytes(kept)
    assert without_times(agent) == before
    assert agent.left() in ([], ["before"])  # an agent in the foreground keeps what it had


def without_times(agent: Agent) -> Mapping[str, tuple[object, ...]]:
    """Return the content of the home. A restore keeps only the seconds of a time."""
    return {path: facts[:-1] for path, facts in agent.content().items()}
