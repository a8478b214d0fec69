"""A registry for npm on loopback with one package: an MCP server without dependencies."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler

from pvebox.standins.base import StandIn, serving

PACKAGE = "clock-server"
PROGRAM = """\
#!/usr/bin/env node
const lines = require("readline").createInterface({ input: process.stdin });
const server = { name: "clock", version: "1" };
const tool = { name: "hour_" + process.env.HOUR, description: "Tell the hour.", inputSchema: { type: "object" } };
const answers = {
  initialize: { protocolVersion: "2024-11-05", capabilities: { tools: {} }, serverInfo: server },
  "tools/list": { tools: [tool] },
};
lines.on("line", (line) => {
  const { id, method } = JSON.parse(line);
  if (id !== undefined) console.log(JSON.stringify({ jsonrpc: "2.0", id, result: answers[method] || {} }));
});
"""
MANIFEST = {"name": PACKAGE, "version": "1.0.0", "bin": {PACKAGE: "server.js"}}


def tarball() -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, text in (("package.json", json.dumps(MANIFEST)), ("server.js", PROGRAM)):
            entry = tarfile.TarInfo(f"package/{name}")
            entry.size, entry.mode = len(text), 0o755
            tar.addfile(entry, io.BytesIO(text.encode()))
    return packed.getvalue()


@contextmanager
def npm_registry(host: str = "127.0.0.1") -> Iterator[str]:
    """Serve the registry and yield its URL."""
    packed = tarball()
    digest = base64.b64encode(hashlib.sha512(packed).digest()).decode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path.endswith(".tgz"):
                self._send(packed)
                return
            link = f"http://{self.headers['Host']}/{PACKAGE}/-/{PACKAGE}-1.0.0.tgz"
            version = {**MANIFEST, "dist": {"tarball": link, "integrity": f"sha512-{digest}"}}
            about = {"name": PACKAGE, "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}
            self._send(json.dumps(about).encode(), 200 if self.path == f"/{PACKAGE}" else 404)

        def _send(self, body: bytes, status: int = 200) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    with serving(StandIn((host, 0), Handler)) as url:
        yield url
