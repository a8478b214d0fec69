"""Stop an install and keep it from starting. Runs on the machine that has it.

An order has `path`, `archive`, `units`, `containers`, `mark`, and what the recipe knows. It may be interrupted
at any point and be run again. Marks come before stops: an install that is not marked may start again at any moment.

- A unit gets a drop-in with an assertion that never holds: neither a boot, a timer nor a person starts it unawares.
- A container of Docker gets no restart policy, and is stopped.
- At the end nothing has files of the folder open. That is read from the kernel, not from what was stopped.
"""

from __future__ import annotations

import os
import pwd
import time

from paddock.onboard.imports.folder import Contents
from paddock.onboard.imports.mark import CannotMark, read_mark, write_beside, write_mark
from paddock.onboard.imports.users import Users, must, systemctl
from paddock.onboard.program.frozen import frozen
from paddock.onboard.program.refusal import Refusal
from paddock.onboard.stream.layout import Json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from paddock.onboard.program.serve import Payload


_SECONDS = 20  # for processes to end after their unit has stopped
_DROP_IN = """\
# Paddock has imported the state of this service: {agent} has it now, at {place}.
# Two services must not use one state. To start this one anyway, remove this file and reload systemd.
[Unit]
AssertPathExists=!/
"""


class StillUsed(Refusal):
    """Something has files of the folder open."""


def retire(order: Json) -> None:
    """Mark an install, stop it, and prove that nothing uses it any more."""
    folder, mark = order["path"], order["mark"]
    known = read_mark(folder)
    if known is None:
        write_mark(folder, mark)
    elif not is_same(known, mark):
        raise CannotMark(f"{folder} was already imported: {known['agent']} at {known['place']} has it")
    for unit in order["units"]:
        write_beside(_drop_in(unit, folder), _DROP_IN.format(**mark))
    for uid in {unit["uid"] for unit in order["units"]}:
        must([*systemctl(uid), "daemon-reload"], uid)
    for unit in order["units"]:
        must([*systemctl(unit["uid"]), "stop", "--", unit["name"]], unit["uid"])
    for number in order["containers"]:
        must(["docker", "update", "--restart", "no", number])
        must(["docker", "stop", "--time", "90", number])
    if not order["archive"]:
        prove_unused(folder, order)


def is_same(known: Json, mark: Json) -> bool:
    """Return whether a mark is that of this import."""
    return (known["agent"], known["place"]) == (mark["agent"], mark["place"])


def _drop_in(unit: Json, folder: str) -> str:
    if unit["uid"] is None:
        return f"/etc/systemd/system/{unit['name']}.d/90-paddock.conf"
    path = f"{pwd.getpwuid(unit['uid']).pw_dir}/.config/systemd/user/{unit['name']}.d/90-paddock.conf"
    if os.path.realpath(path).startswith(f"{folder}/"):
        # The folder is the home of the account, and nothing is written there.
        return f"/etc/systemd/user/{unit['name']}.d/90-paddock.conf"
    return path


def prove_unused(folder: str, order: Json) -> None:
    """Wait until nothing has files of the folder open; raise with the list if that does not happen."""
    end = time.monotonic() + _SECONDS
    while True:
        users = Users(folder, order, Contents(folder, order["databases"]).inodes)
        found = users.described()
        names = [f"{each['name']} (process {each['pid']})" for each in found["others"]]
        names += [each["name"] for each in (*found["units"], *found["containers"]) if each["active"]]
        if not names and not users.processes():
            return
        if time.monotonic() > end:
            raise StillUsed(f"{folder} is still in use by {', '.join(names) or 'a process'}")
        time.sleep(0.3)


@frozen
class RetireInstall:
    """Mark an install, stop it, and prove that nothing uses it any more."""

    order: dict[str, object]

    def perform(self, _: Payload) -> None:
        retire(self.order)
