"""Report an install as JSON: its folder, its size, and what uses it. Runs on the machine that has it.

An order has `path` (or null), `archive` (whether the path is a zip file), and what the recipe knows about such
installs. Nothing is changed.
"""

from __future__ import annotations

import os
import pwd

from paddock.onboard.imports.folder import Contents, Unusable, Zip, chosen, variables_in
from paddock.onboard.imports.mark import can_mark, read_mark
from paddock.onboard.imports.users import Users
from paddock.onboard.program.frozen import frozen
from paddock.onboard.stream.layout import Json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from paddock.onboard.program.serve import Payload


def described(order: Json) -> Json:
    """Return what is known of the install."""
    found = _archive(order) if order["archive"] else _folder(order)
    if not can_mark(found["path"]):
        raise Unusable(f"{os.path.dirname(found['path'])} cannot be written to, and the mark of the import goes there")
    return {**found, "owner": _owner(found["path"]), "mark": read_mark(found["path"]), "as_root": os.geteuid() == 0}


def _folder(order: Json) -> Json:
    folder = chosen(order)
    contents = Contents(folder, order["databases"])
    return {
        "path": folder,
        "files": contents.files,
        "bytes": contents.bytes,
        "variables": variables_in(folder, order["environment_file"]),
        **Users(folder, order, contents.inodes).described(),
    }


def _archive(order: Json) -> Json:
    archive = Zip(order["path"], order)
    return {
        "path": order["path"],
        "files": len(archive.entries),
        "bytes": archive.bytes,
        "variables": archive.variables(order["environment_file"]),
        "units": [],
        "containers": [],
        "others": [],
    }


def _owner(folder: str) -> str:
    uid = os.stat(folder).st_uid
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


@frozen
class DescribeInstall:
    """Report an install."""

    order: dict[str, object]

    def perform(self, _: Payload) -> Json:
        return described(self.order)
