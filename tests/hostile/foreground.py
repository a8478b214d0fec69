"""Write the files of an agent with runtime process, so that ``paddock run`` can run it."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from paddock.kinds.workload import Process


def supervised(folder: Path, script: str) -> str:
    """Return a Python program that supervises an agent with one process, a shell script.

    Exit code 3 of the script is fatal: the supervisor does not restart it.
    """
    for name in ("etc/current", "state/.paddock", "home"):
        (folder / name).mkdir(parents=True)
    for name in ("etc/secrets.env", "etc/generated.env", "state/.paddock/lease"):
        (folder / name).touch()
    argv = ["sh", "-c", script]
    process = Process("own", argv, environment={}, directory=str(folder), stop_seconds=5, fatal_exits=(3,))
    (folder / "etc/current/processes.json").write_text(json.dumps([asdict(process)]))
    return (
        "from pathlib import Path\nfrom types import SimpleNamespace\nfrom paddock.base.errors import PaddockError\n"
        "from paddock.runtimes.process.supervise import supervise\n"
        f"paths = SimpleNamespace(etc='{folder}/etc/current', state='{folder}/state')\n"
        f"try:\n    supervise(paths, Path('{folder}/log'), lambda text: None)\n"
        "except PaddockError as error:\n    print(error.message)\n"
    )
