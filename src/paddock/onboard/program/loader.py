"""Start the program on a machine: this text, with a call of `main`, is the argument of `python3 -I -S -c`.

The input is a sequence of frames: a line `KIND LENGTH`, and so many bytes. M brings modules, as compressed JSON, which
are loaded when something imports them. R is a request, which `paddock.onboard.program.serve` answers.
"""

from __future__ import annotations

import os
import sys
from json import loads
from zlib import decompress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import IO, Any


class Sent:
    """Finds and loads the modules that were sent."""

    def __init__(self) -> None:
        self.sources: dict[str, str] = {}

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if any(f"{each}.".startswith(f"{name}.") for each in self.sources):
            return type(sys.__spec__)(name, self, is_package=name not in self.sources)  # type: ignore[arg-type]
        return None

    def create_module(self, spec: Any) -> None:
        return None

    def exec_module(self, module: Any) -> None:
        name = module.__name__
        exec(compile(self.sources.get(name, ""), name, "exec"), vars(module))  # noqa: S102


def requests(stream: IO[bytes], sent: Sent) -> Iterator[Any]:
    while line := stream.readline(64):
        kind, length = line.split()
        data = stream.read(int(length))
        if len(data) < int(length):
            sys.exit("the connection ended within a message")
        if kind == b"M":
            sent.sources.update(loads(decompress(data)))
        else:
            yield loads(data)


def main() -> None:
    if sys.version_info < (3, 11):  # noqa: UP036  the machine has the Python that it has
        sys.exit(f"python3 on this machine is {sys.version.split()[0]}, and Paddock needs Python 3.11 or newer there")
    sent, stream, code = Sent(), os.fdopen(os.dup(0), "rb"), 0
    os.dup2(os.open("/dev/null", os.O_RDONLY), 0)  # programs that are started do not read requests
    sys.meta_path.insert(0, sent)
    for request in requests(stream, sent):
        from paddock.onboard.program.serve import served

        code = served(request, stream)
    sys.exit(code)
