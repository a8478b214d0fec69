"""Run a program and keep the beginning of its output."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from typing import Any

MOST = 4 << 20  # bytes of each stream; the agent writes some of them, and may write any number


class Output:
    """The output and exit code of a program. A program that prints more than MOST bytes is killed."""

    def __init__(self, argv: list[str], stdin: bytes = b"") -> None:
        pipes: Any = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        # A session of its own, so that the whole process group can be killed.
        with subprocess.Popen(argv, **pipes, start_new_session=True) as child, ThreadPoolExecutor(3) as pool:
            pool.submit(self.feed, child, stdin)
            out, err = pool.submit(self.head, child, child.stdout), pool.submit(self.head, child, child.stderr)
        self.out, self.err = out.result()[:MOST], err.result()[:MOST]
        self.cut = len(out.result()) > MOST or len(err.result()) > MOST
        self.code = child.returncode

    @staticmethod
    def feed(child: subprocess.Popen[bytes], stdin: bytes) -> None:
        with contextlib.suppress(BrokenPipeError), child.stdin or contextlib.nullcontext():
            child.stdin.write(stdin)  # type: ignore[union-attr]

    @staticmethod
    def head(child: subprocess.Popen[bytes], stream: Any) -> bytes:
        data = bytes(stream.read(MOST + 1))
        if len(data) > MOST:
            os.killpg(child.pid, signal.SIGKILL)  # nobody has waited for it yet, so the pid is still its own
        return data
