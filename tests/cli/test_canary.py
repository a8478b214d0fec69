"""Put a canary value into every secret source and run every verb: only `secrets get` prints a canary."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType
from typing import Any
from urllib.parse import quote

import pyrage
import pytest

from clocks import SimulatedClock
from commandline import command_line
from levels import LEVEL
from paddock import core
from paddock import verbs as verbs_room
from paddock.base import clock
from paddock.base.errors import PaddockError
from paddock.places.proxmox.api import tls
from places.node import NO_TRUST

KINDS = ["env", "file", "dotenv", "age", "sops", "command", "whole", "multi", "token", "stored", "literal"]
CANARIES = {kind: f"canary+{kind}/value=7421" for kind in KINDS}

FILE = """\
project: home
places:
  here: {{host: {{}}}}
  node:
    proxmox:
      url: https://127.0.0.1:9
      node: pve
      token: {{env: CANARY_TOKEN}}
      storage: local
      base: local:vztmpl/debian.tar.zst
      ssh: {{key: ./id}}
agents:
  hermes:
    kind: hermes
    version: 0.19.0
    place: {place}
    runtime: {runtime}
    secrets:
      A: {{env: CANARY_ENV}}
      B: {{file: file.key}}
      C: {{dotenv: some.env, key: C}}
      D: {{age: some.age, key: D}}
      E: {{sops: some.yaml, key: a.b}}
      F: {{command: [cat, command.txt]}}
    environment_files: [{{file: whole.env}}]
"""


def private(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o600)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a canary in every secret source."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("CANARY_ENV", CANARIES["env"])
    monkeypatch.setenv("CANARY_TOKEN", CANARIES["token"])
    private(folder / "file.key", CANARIES["file"] + "\n")
    private(folder / "some.env", f"C={CANARIES['dotenv']}\n")
    private(folder / "whole.env", f"W={CANARIES['whole']}\nX='{CANARIES['multi']}'\n")
    private(folder / "command.txt", CANARIES["command"])
    identity = pyrage.x25519.Identity.generate()
    monkeypatch.setenv("PADDOCK_AGE_KEY", str(identity))
    for name, content in {"some.age": f"D={CANARIES['age']}\n", "secrets.age": f"s={CANARIES['stored']}\n"}.items():
        (folder / name).write_bytes(pyrage.encrypt(content.encode(), [identity.to_public()]))
    (folder / "some.yaml").write_text("the fake sops does not read this\n")
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "sops").write_text(f"#!/bin/sh\necho '{CANARIES['sops']}'\n")
    (programs / "sops").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/sbin:/usr/bin:/sbin:/bin")
    private(folder / "id", "not a key")
    (folder / "id.pub").write_text("ssh-ed25519 AAAA none\n")
    return folder


def shown(*texts: str) -> set[str]:
    """Return the kinds of the canaries that the texts contain, plain or encoded."""
    text = "\n".join(texts)
    found = set()
    for kind, value in CANARIES.items():
        encoded, after_name = (base64.b64encode(each.encode()).decode()[:-4] for each in (value, f"user:{value}"))
        # The first eight characters are those of the name.
        forms = [value, quote(value), quote(value, safe=""), encoded, after_name[8:], json.dumps(value)[1:-1]]
        if any(form in text for form in forms):
            found.add(kind)
    return found


def written(tmp_path: Path) -> Iterator[str]:
    """Yield the content of every file that a verb wrote: journals, state, caches."""
    for path in tmp_path.rglob("*"):
        if path.is_file() and path.parent.name not in {"work", "bin"}:
            yield path.read_bytes().decode(errors="replace")


def verbs() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, command in command_line().commands.items():
        inner = getattr(command, "commands", {"": command})
        found |= {f"{name} {each}".strip(): inner[each] for each in inner}
    return found


def arguments(verb: str, command: Any) -> list[str]:
    """Return arguments with which the verb runs as far as possible."""
    if verb == "sandbox":
        return ["sandbox", "--help"]
    given = {"agent": "hermes", "name": "s", "prompt": "hello", "folder": "new"}
    positional = [given.get(each.name, "hermes") for each in command.params if each.param_type_name == "argument"]
    return [*verb.split(), *positional]


def ways(command: Any) -> list[tuple[list[str], list[str]]]:
    """The options to run a verb with, before and after its name. Two of four combinations are for ./test --all."""
    found: list[tuple[list[str], list[str]]] = [(["--debug"], [])]
    if LEVEL == "all":
        found.append(([], []))
    if any("--json" in each.opts for each in command.params):
        found.append(([], ["--json"]))
        if LEVEL == "all":
            found.append((["--debug"], ["--json"]))
    return found


def in_all_forms() -> str:
    values = [*CANARIES.values(), *map(quote, CANARIES.values())]
    values += [base64.b64encode(f"user:{value}".encode()).decode() for value in CANARIES.values()]
    return " ".join(values)


def users_of(name: str, module: ModuleType) -> list[ModuleType]:
    """The modules of core/ and verbs/ that import a function of another one, and that one itself."""
    # A module that is imported later would keep the function of the test, also in other tests.
    loaded = [
        import_module(f"{room.__name__}.{found.name}")
        for room in (core, verbs_room)
        for found in iter_modules(room.__path__)
    ]
    function = getattr(module, name)
    return [found for found in loaded if getattr(found, name, None) is function]


@pytest.mark.parametrize("error", [PaddockError, RuntimeError, None], ids=["failing", "broken", "as-far-as-it-goes"])
@pytest.mark.parametrize(("place", "runtime"), [("here", "process"), ("node", "systemd")])
def test_no_verb_shows_a_secret(
    paddock: Any,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    place: str,
    runtime: str,
    error: type[Exception] | None,
) -> None:
    from paddock.base.secret import Secret
    from paddock.core import observe, perform, resolve
    from paddock.core.resolve import Located

    (folder / "paddock.yaml").write_text(FILE.format(place=place, runtime=runtime))
    assert paddock("approve", "--yes").code == 0
    resolved: list[object] = []

    def fail(agent: Located, *_: object, **__: object) -> None:
        secrets = resolve.resolve(agent).known_secrets.environment
        resolved.append(secrets)
        raise (error or PaddockError)(f"tried with {secrets} and {in_all_forms()}")

    for module in users_of("carry_out", perform):
        monkeypatch.setattr(module, "carry_out", fail)
    if error:
        for module in users_of("observe", observe):
            monkeypatch.setattr(module, "observe", fail)
    monkeypatch.setattr(clock, "current", SimulatedClock())  # the node does not answer, so the client retries
    monkeypatch.setattr(tls, "context", lambda *_: NO_TRUST)
    for kind in ("literal", "stored", "token"):
        Secret(CANARIES[kind])  # no secret of this agent, but part of the error text
    for verb, command in verbs().items():
        if verb == "secrets get":
            continue
        for before, after in ways(command):
            said = paddock(*before, *arguments(verb, command), *after, stdin="new-value-of-s")
            assert shown(said.out, said.err) == set(), (verb, said)
    assert resolved or place == "node"
    assert shown(*written(tmp_path)) == set()


def test_secrets_get_prints_the_value(paddock: Any, folder: Path) -> None:
    said = paddock("secrets", "get", "s")
    assert said.out == CANARIES["stored"] + "\n"
    assert shown(said.err) == set()


LITERALS = {
    "secrets": "agents.hermes.secrets.A={}",
    "token": "places.node.proxmox.token={}",
    "environment": "agents.hermes.environment.OPENAI_API_KEY={}",
    "settings": "agents.hermes.settings.model.api_key={}",
    "mcp": "agents.hermes.mcp_servers.a={{url: 'https://x', headers: {{Authorization: '{}'}}}}",
    "auth": "agents.hermes.auth={{from: '{}'}}",
    "file": "agents.hermes.environment_files=['{}']",
    "wrong-type": "agents.hermes.machine.memory={}",
    "wrong-form": "agents.hermes.version={}",
    "wrong-choice": "agents.hermes.runtime={}",
    "unknown-key": "agents.hermes.pasword={}",
    "broken-yaml": "agents.hermes.environment.A=[{}",
    "alias": "agents.hermes.environment.A=*{}",
}


@pytest.mark.parametrize("assignment", LITERALS.values(), ids=LITERALS.keys())
def test_check_does_not_repeat_a_literal_secret_in_a_message(paddock: Any, folder: Path, assignment: str) -> None:
    (folder / "paddock.yaml").write_text(FILE.format(place="here", runtime="process"))
    value = CANARIES["literal"].replace("=", "-")
    for more in ([], ["--json"]):
        said = paddock("--debug", "check", "--set", assignment.format(value), *more)
        assert said.code == 2
        assert value not in said.out + said.err


BROKEN = {
    "two-lines": ("file.key", "{}\n{}\n"),
    "no-entry": ("some.env", "{}\n"),
    "no-dotenv": ("whole.env", "A=1\n{}\n"),
    "empty": ("file.key", ""),
}


@pytest.mark.parametrize(("name", "text"), BROKEN.values(), ids=BROKEN.keys())
def test_plan_does_not_repeat_the_content_of_an_unusable_secret_source(
    paddock: Any, folder: Path, name: str, text: str
) -> None:
    (folder / "paddock.yaml").write_text(FILE.format(place="here", runtime="process"))
    private(folder / name, text.format(CANARIES["literal"], CANARIES["literal"]))
    assert paddock("approve", "--yes").code == 0
    said = paddock("--debug", "plan")
    assert said.code == 2
    assert "secrets are missing" in said.err
    assert shown(said.out, said.err) == set()
