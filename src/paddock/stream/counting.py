"""Count something in a database of the agent. Runs on the machine.

The argument is JSON: `database`, `query` and `since`, and `account`, the uid and gid of an agent that has its own. The
agent wrote the database, and SQLite believes it: a table may be a view that never ends. So root becomes the agent
first, with little time and memory.
"""

from __future__ import annotations

import json
import os
import resource
import sqlite3
import sys
from contextlib import closing

SECONDS = 10
MEMORY = 512 << 20


def main() -> None:
    order = json.loads(sys.argv[1])
    if order["account"]:
        uid, gid = order["account"]
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    path = "".join(each if each not in "?#%" else f"%{ord(each):02x}" for each in order["database"])
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=5)) as database:
            print(int(database.execute(order["query"], [order["since"]]).fetchone()[0]))
    except (sqlite3.Error, TypeError, ValueError, MemoryError) as error:
        sys.exit(f"the messages cannot be counted: {error}")
