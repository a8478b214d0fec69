"""The person's terminal: prompts go to stderr, answers come from stdin, secrets are not shown."""

from __future__ import annotations

import getpass
import sys


class OwnTerminal:
    """Asks on the terminal that ``paddock`` was started on."""

    def line(self, prompt: str) -> str:
        sys.stderr.write(prompt)
        sys.stderr.flush()
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
