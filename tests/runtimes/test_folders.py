"""The machine refuses the same folders for a state as the file does, with links resolved."""

from __future__ import annotations

from pathlib import Path

import pytest

from paddock.base.process import CommandFailed
from paddock.channels import expect
from paddock.channels.local import LocalGuest
from paddock.file.rules import folders
from paddock.runtimes.sent import script, text

PROGRAM = """
for STATE; do
    ! (check_state_path) 2>/dev/null || echo "$STATE"
done
"""


def let_through(*paths: str) -> list[str]:
    """Return the paths that the machine accepts for a state."""
    variables = "AGENT=home_toy root=/etc/paddock/home_toy STORE=/opt/paddock/.store"
    variables += " STATE_LINK=/var/lib/paddock/.agents/home_toy\n"
    program = text("state/folders.sh") + variables + PROGRAM
    return expect(LocalGuest(), "checking", ["sh", "-euc", program, "paddock", *paths]).splitlines()


def test_the_file_and_the_machine_refuse_the_same_system_folders_for_a_state() -> None:
    code, configuration, states = folders._OWN
    below = [f"{folder}/x" for folder in (*folders._WHOLE, code, configuration)]
    below += [f"{states}/.agents", f"{states}/.agents/home_toy", f"{states}/x/y"]
    refused = [*folders._WHOLE, *folders._SHARED, *folders._EMPTY, code, configuration, states, *below]
    assert let_through(*refused) == []
    assert all(folders.wrong_for_a_state(path) for path in refused)


def test_the_file_and_the_machine_accept_other_folders_for_a_state(tmp_path: Path) -> None:
    paths = ["/srv/toy", "/home/toy", "/opt/toy", "/var/lib/toy", "/var/lib/paddock/toy", "/root/toy", "/etcetera"]
    assert let_through(*paths, "/srv/a b", str(tmp_path)) == [*paths, "/srv/a b", str(tmp_path)]
    assert not any(folders.wrong_for_a_state(path) for path in paths)


def test_the_refusal_of_a_link_names_the_path_and_its_target(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/usr/share")
    state = str(tmp_path / "link/toy")
    where = ["/etc/paddock/home_toy", "/opt/paddock/.store", "/var/lib/paddock/.agents/home_toy"]
    argv = script("state/claim.sh", [state, "home_toy", "toy", "1", "1", "", *where])
    with pytest.raises(CommandFailed, match=f"{state} leads to /usr/share/toy, and /usr/share/toy is the system's own"):
        expect(LocalGuest(), "claiming", argv)
