"""The stage of a demo or a test: a temporary folder, a node, a stand-in model, and their removal."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Final

MODEL_KEY: Final = "sk-demo-of-the-stand-in-model"
ANSWERED: Final = "answered.jsonl"  # in the folder: the prompts that the stand-in model has answered
_PREFIX: Final = "pvebox-stage-"


@contextmanager
def stage_folder() -> Iterator[Path]:
    """Create a temporary folder that containers' root can enter, and remove it when the block ends."""
    report_killed()
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    folder.chmod(0o711)
    (folder / "pid").write_text(str(os.getpid()))
    try:
        yield folder
    finally:
        if str(folder) in Path("/proc/self/mounts").read_text():
            print(f"{folder} was not removed: it still contains a mount.", file=sys.stderr)
        else:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def node_server(folder: Path) -> Iterator[dict[str, Any]]:
    """Run a node with real containers, and delete it when the block ends. Yields its ready line."""
    state = str(folder / "sandbox")
    try:
        words = ("--runtime", "lxc", "--state", state, "--port", "0", "--mmp-wait", "0")
        with server(folder, "pvebox", "serve", *words) as ready:
            yield ready
    finally:
        subprocess.run([sys.executable, "-m", "pvebox", "clean", "--state", state], check=True)


def model_server(folder: Path, host: str, key: str = MODEL_KEY) -> AbstractContextManager[dict[str, Any]]:
    """Run the stand-in model, which answers only from the text of each request, and logs the prompts."""
    file = folder / "model.key"
    file.touch(0o600)
    file.write_text(key)
    words = ("--host", host, "--port", "0", "--key-file", str(file), "--log", str(folder / ANSWERED))
    return server(folder, "pvebox.standins.model", *words)


@contextmanager
def server(folder: Path, *words: str) -> Iterator[dict[str, Any]]:
    """Run a Python module as a server until the block ends. Yields the JSON line that it prints when ready."""
    # The server gets its own process group: Ctrl-C must reach only the demo, which stops its servers in order.
    process = subprocess.Popen([sys.executable, "-m", *words], stdout=subprocess.PIPE, text=True, process_group=0)
    record_pid(folder, process)
    try:
        line = process.stdout.readline() if process.stdout else ""
        if not line:
            raise SystemExit(f"{words[0]} did not start.")
        yield json.loads(line)
    finally:
        process.terminate()
        process.wait()


def record_pid(folder: Path, process: subprocess.Popen[Any]) -> None:
    """Record the pid for the clean-up commands that ``--keep`` prints."""
    with (folder / "pids").open("a") as pids:
        pids.write(f"{process.pid}\n")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def removal_commands(folder: Path) -> str:
    """Return the shell commands that stop the servers of a killed demo and remove its files."""
    noted = (folder / "pids").read_text().split() if (folder / "pids").exists() else []
    pids = [pid for pid in noted if pid.isdecimal() and Path(f"/proc/{pid}").exists()]
    lines = [f"  kill {' '.join(pids)}"] if pids else []
    if (folder / "sandbox").exists():
        clean = [sys.executable, "-m", "pvebox", "clean", "--state", str(folder / "sandbox")]
        lines.append(f"  {shlex.join(clean)}")
    return "\n".join([*lines, f"  {shlex.join(['rm', '-r', '--', str(folder)])}"])


def report_killed() -> None:
    """Print how to clean up after demos and tests that were killed."""
    for left in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*/pid"):
        try:
            # Any user can create a folder of this name; its pids and paths must not end up in a command to run.
            if any(path.lstat().st_uid != os.geteuid() or path.is_symlink() for path in (left.parent, left)):
                continue
            owner = left.read_text()
        except OSError:
            continue  # not readable, so of another user
        if not Path(f"/proc/{owner}").exists() and not (left.parent / "kept").exists():
            print(
                f"An earlier demo or test was killed. To clean up after it:\n{removal_commands(left.parent)}",
                file=sys.stderr,
            )
