"""The person's terminal: prompts go to stderr, answers come from stdin, secrets are not shown."""

from __future__ import annotations

import getpass
import select
import sys


class OwnTerminal:
    """Asks on the terminal that ``paddock`` was started on."""

    def line(self, prompt: str) -> str:
        sys.stderr.write(prompt)
        sys.stderr.flush()
        # Python would notice a Ctrl-C just before the read only after it.
        # A terminal gives single lines, so that none is in a buffer.
        while not select.select([sys.stdin], [], [], 0.5)[0]:
            pass
        typed = sys.stdin.readline()
        if not typed:
            sys.stderr.write("\n")
            raise EOFError
        return typed.rstrip("\r\n")

    def hidden(self, prompt: str) -> str:
        return getpass.getpass(prompt, sys.stderr)


def own_terminal() -> OwnTerminal | None:
    """Return the terminal, or None if nobody can be asked."""
    return OwnTerminal() if sys.stdin.isatty() and sys.stderr.isatty() else None
