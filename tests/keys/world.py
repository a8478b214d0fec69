"""The world of the table: files that rows name, a simulated node, and gates that record instead of running things."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from pyrage import encrypt, x25519

from asked import answer, asked
from clocks import SimulatedClock
from keys.shapes import BASE
from paddock.base import clock, process
from paddock.base.process import Result
from paddock.kinds.code import Distribution
from paddock.kinds.hermes import managed
from paddock.places.contract import MachineWant
from paddock.places.proxmox.api import tls
from paddock.places.proxmox.node.observation import ProxmoxSeen
from paddock.places.proxmox.place import ProxmoxPlace
from paddock.runtimes.engine import container
from places.node import NO_TRUST, ROOT, Node

FOREIGN: Final = 900  # a container of somebody else
# What programs print, by a word of their command.
_PRINTED: Final = {"printenv HOME": "/home/someone\n", "cat /proc/1/comm": "1000\nsystemd\n"}

# Code that Paddock ships no lock for.
_LOCKED: Final = (
    Distribution("litellm", "1.106.3", ["proxy"]),
    Distribution("litellm", "1.106.2", ["mcp", "proxy"]),
    Distribution("litellm", "1.106.2", ["proxy"], added=["plugin==1"]),
    Distribution("hermes-agent", "0.19.0", [], added=["plugin==1"]),
    *(Distribution("hermes-agent", "0.19.0", [extra]) for extra in ("dingtalk", "feishu", "teams", "wecom")),
)


@dataclass
class Gate:
    """Records each command in place of running it."""

    ran: list[Sequence[str]] = field(default_factory=list)

    def run(self, argv: Sequence[str], **_: Any) -> Result:
        self.ran.append(tuple(argv))
        line = " ".join(argv)
        return Result(tuple(argv), 0, next((out for word, out in _PRINTED.items() if word in line), ""), "", 0)


@dataclass
class Wire(httpx.BaseTransport):
    """Passes requests on to the simulated node, and keeps them."""

    node: Node
    sent: list[httpx.Request] = field(default_factory=list)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.sent.append(request)
        return self.node.handle_request(request)


@dataclass
class SickGuest:
    """A machine whose agent answers nothing. Keeps the questions that it got."""

    name: str = "sick"
    got: list[Any] = field(default_factory=list)

    def run(self, argv: Sequence[str], *, stdin: bytes = b"", **_: Any) -> Result:
        self.got.append(asked(stdin))
        said = {} if self.got[-1][0] == "Observe" else {"refused": "nobody answers"}
        return Result(tuple(argv), 0, answer(said), "", 0)


class World:
    """Everything outside of Paddock that a case may touch."""

    foreign = FOREIGN

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.gate = Gate()
        self._patch = patch
        self._seen: dict[str, ProxmoxSeen] = {}
        node = Node(folder)
        node.add_archive(BASE)
        node.somebody(FOREIGN, pool="paddock")
        node.root("pct", "start", FOREIGN)
        self.wire = Wire(node)
        write_files(folder, f"{ROOT}={node.world.access.tokens[ROOT].secret}")
        patch.setenv("PADDOCK_AGE_KEY", str(folder / "own.key"))
        patch.setenv("A_KEY", "first-secret")
        patch.setenv("ANOTHER_KEY", "second-secret")
        patch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        patch.setattr(process, "run", self.gate.run)
        self.trust = tls.context
        patch.setattr(tls, "context", lambda *_: NO_TRUST)  # reading the system's certificates takes 0.1 s
        for module, writer in ((managed, "dump"), (container, "compose")):  # most files have the same YAML: 5 ms each
            patch.setattr(module, writer, _remembering(getattr(module, writer)))
        self.environment = dict(os.environ)

    def seen(self, place: ProxmoxPlace, want: MachineWant) -> ProxmoxSeen:
        """Observe the node, once for each place."""
        name = repr(place._spec)
        if name not in self._seen:
            self._seen[name] = place.observe(want)
        return self._seen[name]

    def guest(self) -> SickGuest:
        return SickGuest()

    @contextmanager
    def simulated_clock(self) -> Iterator[SimulatedClock]:
        simulated = SimulatedClock()
        with self._patch.context() as patch:
            patch.setattr(clock, "current", simulated)
            yield simulated

    @contextmanager
    def notified(self) -> Iterator[list[Any]]:
        """Record commands that are run and requests that are sent."""
        told: list[Any] = []
        self.gate.ran.clear()
        with self._patch.context() as patch:
            patch.setattr(httpx, "stream", lambda *request, **_: _Sent(request, told))
            yield told
        told += self.gate.ran


def _remembering(write: Callable[..., str]) -> Callable[..., str]:
    """Return the function, which writes the same values once only."""
    written: dict[str, str] = {}

    def remembered(*values: Any) -> str:
        name = repr(values)
        if name not in written:
            written[name] = write(*values)
        return written[name]

    return remembered


@dataclass
class _Sent:
    """A request that is accepted."""

    request: tuple[str, ...]
    told: list[Any]
    is_success = True

    def __enter__(self) -> _Sent:
        self.told.append(self.request)
        return self

    def __exit__(self, *_: object) -> None: ...


def write_files(folder: Path, token: str) -> None:
    """Write the files that rows of the table name."""
    secrets = {
        "token": token,
        "another-token": "somebody@pve!other=00000000-0000-0000-0000-000000000000",
        "a.secret": "from-a-file",
        "a.env": "ONE=from-dotenv\nTWO=second-of-dotenv\n",
        "b.env": "ONE=from-another-dotenv\n",
        "auth.json": '{"refresh": "first"}',
        "url.secret": "https://example.com/hook",
    }
    for name, text in secrets.items():
        (folder / name).touch(mode=0o600)
        (folder / name).write_text(text)
    texts = {
        "other.md": "Be brief.\n",
        "config.yaml": "model: {provider: 'custom:llm', default: other}\n"
        "providers: {llm: {base_url: 'http://192.0.2.22:4000/v1', key_env: A_KEY}}\n",
        "litellm.yaml": "model_list: [{model_name: other, litellm_params: {model: openai/other}}]\n",
        "hermes_agent-0.19.0-py3-none-any.whl": "a wheel",
        "litellm-1.106.2-py3-none-any.whl": "a wheel",
        "a.sops": "encrypted",
        "b.sops": "encrypted",
        "no-ca.pem": "this is no certificate\n",
        "people.pub": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKfriend friend\n",
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    (folder / "locks").mkdir()
    for wanted in _LOCKED:
        (folder / "locks" / wanted.lock).write_text(f"{wanted.name}=={wanted.version} --hash=sha256:00\n")
    (folder / "id2").touch()
    (folder / "id2.pub").write_text("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKsecond paddock\n")
    (folder / "root").mkdir()
    for name in ("etc", "usr", "bin"):
        (folder / "root" / name).mkdir()
    with tarfile.open(folder / "root.tar", "w") as tar:
        tar.add(folder / "root", ".")
    (folder / "sops").write_text('#!/bin/sh\necho "decrypted with $1 ${2##*/}"\n')
    (folder / "sops").chmod(0o755)
    keys = [x25519.Identity.generate() for _ in range(2)]
    for name, key in zip(("own.key", "other.key"), keys, strict=True):
        (folder / name).touch(mode=0o600)
        (folder / name).write_text(str(key))
    for name, text in (("a.age", "ONE=from-age\n"), ("b.age", "ONE=from-another-age\n")):
        (folder / name).write_bytes(encrypt(text.encode(), [keys[0].to_public()], armored=True))
