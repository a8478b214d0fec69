"""What a script on a machine reports: records of a name and a value.

A record is ``NAME=VALUE`` and ends with a NUL byte, which no shell variable holds. So no value that an agent chose (a
line of its log, the name of a file) can begin a record of its own. ``runtimes/report.sh`` writes them.
"""

from __future__ import annotations

from typing import Final

from paddock.errors import PaddockError

_BEGIN: Final = "\0report=1\0"  # whatever a login shell prints before it is not part of the report
_END: Final = "end=ok"


def records(printed: str) -> list[tuple[str, str]]:
    """Return the names and values of a report in their order; an error if any of it is missing."""
    before, begin, rest = printed.partition(_BEGIN)
    *found, after = rest.split("\0")
    if not begin or not found or found[-1] != _END or after.strip():
        raise PaddockError(
            f"the machine's report is incomplete: {(before + rest)[-200:]!r}",
            hint="run it again; if that does not help, see what root's shell prints when nobody types",
        )
    pairs = [record.partition("=") for record in found[:-1]]
    if not all(equals for _, equals, _ in pairs):
        raise PaddockError("the machine's report has a record without a value")
    return [(name, value) for name, _, value in pairs]
