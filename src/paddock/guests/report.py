"""Parse the report that a script on a machine prints.

A report is a list of records ``NAME=VALUE``, each ended by a NUL byte. A shell variable cannot hold a NUL byte, so a
value chosen by an agent (a log line, a file name) cannot start another record. ``runtimes/report.sh`` writes reports.
"""

from __future__ import annotations

from typing import Final

from paddock.errors import PaddockError

_BEGIN: Final = "\0report=1\0"  # a login shell may print text before it, which is ignored
_END: Final = "end=ok"


def records(printed: str) -> list[tuple[str, str]]:
    """Return the names and values of a report in order. Raise an error if the report is incomplete."""
    before, begin, rest = printed.partition(_BEGIN)
    *found, after = rest.split("\0")
    if not begin or not found or found[-1] != _END or after.strip():
        raise PaddockError(
            f"the machine's report is incomplete: {(before + rest)[-200:]!r}",
            hint="run the command again; if that does not help, check what root's login shell prints there",
        )
    pairs = [record.partition("=") for record in found[:-1]]
    if not all(equals for _, equals, _ in pairs):
        raise PaddockError("the machine's report has a record without a value")
    return [(name, value) for name, _, value in pairs]
