"""The scripts that run as root in a container whose image brings the agent's code: start and relock."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from paddock.channels.sent import text

UID = 54321

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: the agent is another user")


def bundle(folder: Path, owner: str, *lines: str) -> Path:
    """A bundle with these lines in the list of the state's files; each file has the content `of Paddock`."""
    here = folder / "etc/home_bee/current"
    (here / "state").mkdir(parents=True)
    settings = {"OWNER": owner, "USER_UID": str(UID), "USER_GID": str(UID), "DATA": str(folder / "home")}
    (here / "bundle.env").write_text("".join(f'{name}="{value}"\n' for name, value in settings.items()))
    (here / "state/list").write_text("".join(f"{line}\n" for line in lines))
    (here / "state/0").write_text("of Paddock\n")
    (here / "relock").write_text(text("relock.sh"))
    return here


def given_away(path: Path, content: str) -> None:
    """A file that the start of the image has changed and given to the agent."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    path.chmod(0o600)
    for each in (path, path.parent):
        os.chown(each, UID, UID)


LIST = ("hold\t-\t.", "hold\t-\t.hermes", "lock\t0\t.hermes/.env", "folder\t-\t.hermes/cron", "seed\t0\t.hermes/own")


@as_root
@pytest.mark.parametrize(
    ("owner", "keeper", "mode"), [("bee:bee", 0, 0o1770), ("", UID, 0o755)], ids=["root", "account"]
)
def test_files_that_the_start_of_an_image_gave_away_are_locked_again(
    tmp_path: Path, owner: str, keeper: int, mode: int
) -> None:
    here, home = bundle(tmp_path, owner, *LIST), tmp_path / "home"
    given_away(home / ".hermes/.env", "API_SERVER_KEY=of-the-image\n")
    given_away(home / ".hermes/.env.paddock-a1B2c3", "left by a start that was killed\n")
    given_away(home / ".hermes/memory", "precious\n")
    for _ in range(2):
        subprocess.run(["/bin/sh", str(here / "relock")], check=True, env={"PATH": "/nowhere"})
        locked = home / ".hermes/.env"
        assert (locked.read_text(), locked.stat().st_uid, locked.stat().st_mode & 0o777) == (
            "of Paddock\n",
            keeper,
            0o444,
        )
        assert (home / ".hermes").stat().st_mode & 0o7777 == mode
    memory = home / ".hermes/memory"
    assert (memory.read_text(), memory.stat().st_uid, memory.stat().st_mode & 0o777) == ("precious\n", UID, 0o600)
    assert {each.name for each in (home / ".hermes").iterdir()} == {".env", "memory"}, "nothing is left beside them"


@as_root
def test_a_link_in_the_place_of_a_locked_file_is_not_followed(tmp_path: Path) -> None:
    here, home = bundle(tmp_path, "bee:bee", *LIST), tmp_path / "home"
    target = tmp_path / "of-root"
    target.write_text("untouched\n")
    given_away(home / ".hermes/memory", "precious\n")
    (home / ".hermes/.env").symlink_to(target)
    subprocess.run(["/bin/sh", str(here / "relock")], check=True)
    assert (home / ".hermes/.env").read_text() == "of Paddock\n"
    assert (target.read_text(), target.stat().st_mode & 0o777) == ("untouched\n", 0o644)


@pytest.mark.parametrize(
    ("path", "safe"),
    [
        ("/opt/hermes/bin:/opt/data/.local/bin:/usr/bin:/bin", "/opt/hermes/bin:/usr/bin:/bin"),
        ("/opt/data:/usr/bin:/bin:/srv/agent/.local/bin", "/usr/bin:/bin"),
        ("bin:/usr/bin:/bin:.:", "/usr/bin:/bin"),
        ("/usr/bin:/bin:/opt/hermes/../data/bin", "/usr/bin:/bin"),
        ("/opt/database/bin:/usr/bin:/bin", "/opt/database/bin:/usr/bin:/bin"),
    ],
)
def test_the_start_of_an_image_finds_no_programs_in_the_state(tmp_path: Path, path: str, safe: str) -> None:
    here = tmp_path / "home_bee/current"
    (here / "processes").mkdir(parents=True)
    (here / "bundle.env").write_text('DATA="/srv/agent"\nACCOUNT_HOME="/opt/data"\n')
    (here / "environment").write_text('COLOUR="green"\n')
    for name in ("secrets.env", "generated.env"):
        (here.parent / name).write_text("")
    (here / "processes/main").write_text('exec "$@" main\n')
    # Not the folder of hooks of the machine that runs this test.
    start = text("start_image.sh").replace("/etc/cont-init.d", str(tmp_path / "none"))
    (here / "start").write_text(start)
    entrypoint = ["/bin/sh", "-c", 'echo "$PATH $COLOUR $*"', "entrypoint"]
    argv = ["/bin/sh", str(here / "start"), *entrypoint]
    found = subprocess.run(argv, check=True, env={"PATH": path}, capture_output=True, text=True)
    assert found.stdout == f"{safe} green main\n"
