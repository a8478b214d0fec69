"""Requests that are carried out in this process, as the program on a machine does."""

from __future__ import annotations

import os
from io import BytesIO
from typing import Any

from paddock.channels.onboard import Request, framed_payload
from paddock.onboard.program.serve import Payload


def performed(request: Request, payload: bytes = b"") -> Any:
    """Carry out a request, and return its result. A refusal is raised."""
    before = os.umask(0o077)
    try:
        return request.perform(Payload(BytesIO(framed_payload(payload))))
    finally:
        os.umask(before)
