"""Files that a client uploads in a multipart form."""

from __future__ import annotations

import re
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final

from pvebox.api.errors import NoSuchMethodError

_DISPOSITION: Final = re.compile(rb'form-data;\s*name="([^"]*)"(?:;\s*filename="([^"]*)")?', re.IGNORECASE)


@dataclass(frozen=True)
class Upload:
    """A parsed multipart form: its fields, and the content of its file."""

    fields: dict[str, str] = field(default_factory=dict)
    content: bytes | None = field(default=None, repr=False)


# The file of the current request. A parameter cannot name it, so no request can read another file of this machine.
UPLOADED: ContextVar[bytes | None] = ContextVar("uploaded", default=None)


def parse_multipart(content_type: str, body: bytes) -> Upload:
    """Parse a multipart form with at most one file, in the field `filename`."""
    boundary = re.search(r'boundary="?([^";\s]{1,70})"?', content_type)
    if boundary is None:
        raise NoSuchMethodError("upload failed")
    fields: dict[str, str] = {}
    content: bytes | None = None
    for part in body.split(b"--" + boundary[1].encode())[1:]:
        if part.startswith(b"--"):
            break
        head, separator, value = part.partition(b"\r\n\r\n")
        found = _DISPOSITION.search(head)
        if not separator or found is None:
            raise NoSuchMethodError("upload failed")
        name, value = found[1].decode("utf-8", "replace"), value.removesuffix(b"\r\n")
        if found[2] is None:
            fields[name] = value.decode("utf-8", "replace")
        elif name == "filename" and content is None:
            fields[name], content = found[2].decode("utf-8", "replace"), value
        else:
            raise NoSuchMethodError("upload failed")
    return Upload(fields, content)
