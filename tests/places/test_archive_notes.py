"""The notes of an archive and the configuration in it: whoever may back up may write both."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.file.agent_id import AgentId
from paddock.places.proxmox.archive.plan import Notes, Saved, owner_of

HERMES = AgentId("home", "hermes")
ABOUT = {"agent": "home_hermes", "kind": "hermes", "version": "0.19.0"}
STATE = "mp0: local-lvm:vm-999-disk-1,mp=/var/lib/paddock/home_hermes,backup=1,size=8G"
WORDS = st.text(string.ascii_letters + string.digits + "._+/-", min_size=1, max_size=60)


@given(st.dictionaries(st.sampled_from(["agent", "kind", "version"]), WORDS), WORDS, st.booleans())
def test_notes_are_read_as_they_were_written(about: dict[str, str], run: str, finished: bool) -> None:
    notes = Notes({"agent": "a", "kind": "k", **about}, run, finished)
    assert len(str(notes).split("\n")) == 1
    assert Notes.parse(str(notes)) == notes


@given(st.text())
def test_any_text_is_read_or_is_no_mark_of_a_backup(text: str) -> None:
    for notes in (text, f"paddock-backup: {text}", f"paddock-backup: v=1 agent=a kind=k run=r {text}"):
        found = Notes.parse(notes)
        assert found is None or Notes.parse(str(found)) == found


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hermes-pet",
        "paddock-backup: v=2 agent=home_hermes kind=hermes run=x",
        "paddock-backup: v=1 agent=home_hermes kind=hermes",
        "paddock-backup: v=1 agent=home_hermes agent=home_other kind=hermes run=x",
        "paddock-backup: v=1 agent=home_hermes kind=hermes run=\x1b[31m",
        "paddock: v=2 role=pet",
    ],
)
def test_other_notes_are_no_mark_of_a_backup(text: str) -> None:
    assert Notes.parse(text) is None


def test_an_unfinished_backup_is_told_from_a_finished_one() -> None:
    unfinished = Notes.parse(str(Notes(ABOUT, "desk/1")))
    assert unfinished is not None
    assert not unfinished.finished


@pytest.mark.parametrize(
    ("volume", "owner"),
    [
        ("local:backup/vzdump-lxc-999-2030_01_01-00_00_00.tar.zst", 999),
        ("pbs:backup/ct/999/2030-01-01T00:00:00Z", 999),
        ("local:backup/vzdump-qemu-999-2030_01_01-00_00_00.vma", None),
        ("local:backup/other.tar", None),
        ("local-lvm:vm-999-disk-1", None),
    ],
)
def test_the_name_of_an_archive_tells_its_owner(volume: str, owner: int | None) -> None:
    assert owner_of(volume) == owner


def test_the_saved_configuration_tells_what_is_in_the_archive() -> None:
    saved = Saved.parse(HERMES, f"#paddock%3A v=2 role=pet\n{STATE}\nrootfs: local-lvm:vm-999-disk-0,size=2G\n")
    assert saved is not None
    assert (saved.root, saved.state.key, saved.state.size) == (2 << 30, "mp0", 8 << 30)


@pytest.mark.parametrize(
    "text",
    [
        "",
        STATE,
        f"rootfs: x:vm-1-disk-0,size=2G\n{STATE.replace('backup=1', 'backup=0')}",
        f"rootfs: x:vm-1-disk-0,size=2G\n{STATE.replace('home_hermes', 'home_other')}",
        f"rootfs: x:vm-1-disk-0,size=2G\n{STATE.replace(',size=8G', '')}",
        f"rootfs: x:vm-1-disk-0,size=2G\n[old]\n{STATE}",
        f"rootfs: x:vm-1-disk-0,size=2G\n#{STATE}",
    ],
)
def test_an_archive_without_the_state_of_the_agent_is_not_taken(text: str) -> None:
    assert Saved.parse(HERMES, text) is None


@given(st.text())
def test_any_saved_configuration_is_read_or_refused(text: str) -> None:
    Saved.parse(HERMES, text)
    Saved.parse(HERMES, f"rootfs: {text}\nmp0: {text}")
    Saved.parse(HERMES, f"rootfs: a:b,size={text}\n{STATE},size={text}")
