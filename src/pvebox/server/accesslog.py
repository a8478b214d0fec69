"""The access log of the API server, in the format of Proxmox's pveproxy."""

from __future__ import annotations

import time
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response


class AccessLog:
    """Writes one line per request, in the format of /var/log/pveproxy/access.log."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __call__(self, request: Request, response: Response) -> None:
        """Write the line for a request and its response."""
        peer = request.client.host if request.client else "-"
        user = getattr(request.state, "user", "-")
        asked = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        line = f'"{request.method} {asked} HTTP/{request.scope["http_version"]}" {response.status_code}'
        with self._path.open("a", encoding="utf-8") as log:
            now = time.strftime("%d/%m/%Y:%H:%M:%S %z")
            log.write(f"{peer} - {user} [{now}] {line} {response.headers.get('content-length', '-')}\n")
