"""Names that other users chose do not become commands that Paddock prints, nor files that root writes."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from pathlib import Path

import pytest

from paddock import cli
from paddock.places.proxmox.actions import RootWork
from paddock.places.proxmox.root import perform as root_worker
from paddock.places.proxmox.root import work as root_work
from pvebox.standins import stage

NOBODY = 65534
SCRIPTS = Path(__file__).parents[2] / "scripts"


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
