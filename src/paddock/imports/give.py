"""Send an install that was stopped to standard output, as the stream of a state. Runs on the machine that has it.

The argument is JSON: what `paddock.stream.send` needs, without `home` and `staging`; `path`, `archive` (whether that is
a zip file), `mark`, and what the recipe knows. The mark and the stop are proven again before anything is read.
"""

from __future__ import annotations

import json
import sys
from io import FileIO

from paddock.imports.folder import Contents, Unusable
from paddock.imports.mark import read_mark
from paddock.imports.retire import StillUsed, is_same, prove_unused
from paddock.imports.staging import staging
from paddock.imports.unzip import Zip
from paddock.stream.layout import Json
from paddock.stream.send import Sender


def give(order: Json, out: FileIO) -> None:
    """Send a folder or an archive."""
    known = read_mark(order["path"])
    if known is None or not is_same(known, order["mark"]):
        raise Unusable(f"{order['path']} has no mark of this import")
    if order["archive"]:
        _archive(order, out)
    else:
        _folder(order, out)


def _folder(order: Json, out: FileIO) -> None:
    folder = order["path"]
    prove_unused(folder, order)
    largest = Contents(folder, order["databases"]).largest_database
    with staging(3 * largest, avoid=folder) as room:
        Sender({**order, "home": folder, "staging": room, "stopped": True}, out).send()


def _archive(order: Json, out: FileIO) -> None:
    archive = Zip(order["path"], order)
    with staging(2 * archive.bytes, avoid=order["path"]) as room:
        archive.unpack(f"{room}/home")
        sender = Sender({**order, "home": f"{room}/home", "staging": room, "stopped": True, "under": ""}, out)
        sender.left_out += [{"path": path, "why": "it is not a file"} for path in archive.links]
        sender.send()


def main() -> None:
    try:
        give(json.loads(sys.argv[1]), FileIO(1, "w", closefd=False))
    except (Unusable, StillUsed) as error:
        sys.exit(str(error))
    except OSError as error:
        sys.exit(f"the install cannot be read: {error.strerror or error}")
