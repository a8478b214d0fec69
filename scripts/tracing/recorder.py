"""The recorder of scripts/traces: a pytest plugin, and a hook in every `paddock` process that a test starts."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import json
import os
import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

_folder = Path()
_test = ""
_writing = threading.Lock()


def start(folder: str) -> None:
    """Record API calls and commands if this interpreter runs `python -m paddock VERB`, except the sandbox."""
    global _folder, _test
    _folder = Path(folder)
    words = sys.orig_argv[1:]
    if words[:2] != ["-m", "paddock"] or words[2:3] in ([], ["sandbox"]):
        return
    _test = _of_ancestor()
    if not _test:
        return
    _write({"run": words[2:]})
    _record_commands()
    sys.meta_path.insert(0, _HttpxFinder())


def pytest_runtest_logstart(nodeid: str) -> None:
    (_folder / f"pid-{os.getpid()}").write_text(re.sub(r"[^\w.-]+", "-", nodeid.removeprefix("tests/")))


def _of_ancestor() -> str:
    """Return the name of the test that runs in the nearest ancestor process."""
    pid = os.getpid()
    while pid > 1:
        known = _folder / f"pid-{pid}"
        if known.exists():
            return known.read_text()
        stat = Path(f"/proc/{pid}/stat").read_text()
        pid = int(stat.rpartition(")")[2].split()[1])
    return ""


def _write(event: dict[str, Any]) -> None:
    with _writing, (_folder / f"{_test}.jsonl").open("a") as file:
        file.write(json.dumps(event) + "\n")


def _record_commands() -> None:
    popen = subprocess.Popen.__init__

    def recorded(self: Any, args: Any, *rest: Any, **options: Any) -> None:
        if isinstance(args, Sequence) and not isinstance(args, str):
            _write({"argv": _on_the_machine([str(word) for word in args])})
        popen(self, args, *rest, **options)

    subprocess.Popen.__init__ = recorded  # type: ignore[method-assign]


def _on_the_machine(argv: list[str]) -> list[str]:
    if argv[0] == "ssh" and "--" in argv:
        return shlex.split(argv[argv.index("--") + 1])
    return argv


class _HttpxFinder(importlib.abc.MetaPathFinder):
    """Wrap httpx when it is imported. An import here would slow down every command."""

    def find_spec(self, name: str, path: Any, target: ModuleType | None = None) -> Any:
        if name != "httpx._client":
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec and spec.loader:
            execute = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                execute(module)
                _record_requests(module.Client)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _record_requests(client: Any) -> None:
    stream = client.stream

    def recorded(self: Any, method: str, url: Any, **what: Any) -> Any:
        _write({"method": method, "path": str(url), "params": what.get("params") or what.get("data")})
        return stream(self, method, url, **what)

    client.stream = recorded
