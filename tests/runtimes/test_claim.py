"""Claiming files that existed before Paddock. An interrupted claim is completed by the next one."""

from __future__ import annotations

import os
import pwd
import subprocess
from pathlib import Path

import pytest

from paddock.onboard.agent import Agent
from paddock.onboard.program.refusal import BUSY, Refusal
from paddock.onboard.state.claim import ClaimState
from performed import performed

FILES = {"notes": "a", ".memory/facts": "b", "home/deep": "c", "..odd": "d", "with space/x": "e"}


def agent_of(state: Path, agent: str = "home_toy") -> Agent:
    top = state.parent / "paddock"
    return Agent("", agent, (), f"{top}/etc/{agent}", f"{top}/code/.store", f"{top}/.agents/{agent}", str(state))


def claim(state: Path, agent: str = "home_toy", uid: int | None = None, *, mounted: bool = False) -> str:
    """Claim the files, and return what a person is told."""
    number = os.getuid() if uid is None else uid
    told = performed(ClaimState(agent_of(state, agent), mounted, "nobody-of-that-name", number, number))
    return "\n".join(told)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    state = tmp_path / "state"
    for name, content in FILES.items():
        (state / name).parent.mkdir(parents=True, exist_ok=True)
        (state / name).write_text(content)
    (state / "lost+found").mkdir()
    (state / "dangling").symlink_to("nowhere")
    return state


def expect_claimed(state: Path) -> None:
    assert {name: (state / "home" / name).read_text() for name in FILES} == FILES
    assert (state / "home/dangling").is_symlink()
    assert sorted(entry.name for entry in state.iterdir()) == [".paddock", "home", "lost+found"]
    assert sorted(entry.name for entry in (state / ".paddock").iterdir()) == ["identity"]
    assert (state / ".paddock/identity").read_text().startswith("version=2\nagent=home_toy\nid=")


def test_claim_moves_all_files_into_the_home(state: Path) -> None:
    claim(state)
    expect_claimed(state)
    claim(state)
    expect_claimed(state)


@pytest.mark.parametrize(
    ("bee", "taken", "words"),
    [
        (
            1001,
            "",
            "the account bee has the uid 1001 here, and the file says 10000; write user: {name: bee, uid: 1001,",
        ),
        (
            998,
            "",
            "the account bee has the uid 998 here, and the file says 10000; rename it: usermod --login old-bee",
        ),
        (None, "bob", "the uid 10000 is that of the account bob here, and the file says bee"),
    ],
)
def test_an_account_with_another_number_is_said_before_anything_moves(
    state: Path, monkeypatch: pytest.MonkeyPatch, bee: int | None, taken: str, words: str
) -> None:
    accounts = [("bee", bee)] * (bee is not None) + [(taken, 10000)] * bool(taken)
    known = {name: pwd.struct_passwd((name, "x", uid, uid, "", "/", "/bin/sh")) for name, uid in accounts}
    monkeypatch.setattr(pwd, "getpwnam", known.__getitem__)
    monkeypatch.setattr(pwd, "getpwall", lambda: list(known.values()))
    with pytest.raises(Refusal) as caught:
        performed(ClaimState(agent_of(state, "home_bee"), False, "bee", 10000, 10000, required=True))
    assert f"nothing was moved: {words}" in str(caught.value)
    assert {name: (state / name).read_text() for name in FILES} == FILES
    assert not (state / ".paddock").exists()


def begun(state: Path, name: str = ".paddock.new") -> None:
    for folder in (state / name, state / name / "adopting"):
        folder.mkdir(mode=0o700)


def half_moved(state: Path) -> None:
    begun(state, ".paddock")
    (state / "notes").rename(state / ".paddock/adopting/notes")


def all_moved(state: Path) -> None:
    begun(state, ".paddock")
    for name in ("notes", ".memory", "home", "..odd", "with space", "dangling"):
        (state / name).rename(state / ".paddock/adopting" / name)


def no_identity_yet(state: Path) -> None:
    all_moved(state)
    (state / ".paddock/adopting").rename(state / "home")


@pytest.mark.parametrize(
    "cut_off",
    [begun, half_moved, all_moved, no_identity_yet],
    ids=["begun", "half moved", "all moved", "no identity yet"],
)
def test_an_interrupted_claim_is_completed_by_the_next(state: Path, cut_off: object) -> None:
    cut_off(state)  # type: ignore[operator]
    claim(state)
    expect_claimed(state)


def test_claim_accepts_an_empty_directory(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    claim(tmp_path / "state")
    assert (tmp_path / "state/home").is_dir()


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives files away")
def test_claim_changes_the_owner_of_files_of_other_users_only(state: Path) -> None:
    right = state / ".memory/facts"
    os.chown(right, 4242, 5151)
    os.chown(right.parent, 4242, 5151)
    told = claim(state, uid=4242)
    moved = state / "home/.memory/facts"
    assert (moved.stat().st_uid, moved.stat().st_gid) == (4242, 5151)
    assert ((state / "home/notes").stat().st_uid, (state / "home/notes").lstat().st_gid) == (4242, 4242)
    assert (state / "home/dangling").lstat().st_uid == 4242
    assert "8 files" in told


def test_claim_refuses_the_state_of_another_agent(state: Path) -> None:
    claim(state)
    with pytest.raises(Refusal, match="is the state of another agent"):
        claim(state, "lab_toy")


def test_claim_refuses_a_volume_that_is_not_mounted(state: Path) -> None:
    with pytest.raises(Refusal, match="is not mounted"):
        claim(state, mounted=True)
    assert (state / "notes").exists()


def test_claim_names_a_process_with_open_files_in_the_state(state: Path) -> None:
    with subprocess.Popen(["sleep", "60"], cwd=state / "home") as someone:
        try:
            with pytest.raises(Refusal, match=rf"process {someone.pid} \(sleep\) has files of") as refused:
                claim(state)
            assert refused.value.code == BUSY
        finally:
            someone.kill()
    assert (state / "notes").exists()
    claim(state)
    expect_claimed(state)
