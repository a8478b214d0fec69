"""Any file gives either a spec or an error without internals of Python or pydantic."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from cases import DATA
from levels import by_level
from paddock.base.errors import BadInput, Exit
from paddock.file.models.agent import AgentSpec
from paddock.file.models.place import PlaceSpec
from paddock.file.models.whole import Spec
from paddock.file.overlays import overridden
from paddock.file.secrets.sources import Source
from paddock.file.sentences import keys, model_in
from paddock.file.tree import read
from paddock.kinds import KINDS, load, parse

RICH = """\
defaults: {verify: {timeout: 1m}, environment: {TZ: Europe/Rome}}
project: home
places:
  home:
    proxmox:
      url: https://192.0.2.10:8006
      node: pve
      token: {env: PVE_TOKEN}
      storage: local-lvm
      base: {url: "https://example.org/debian.tar.zst", sha256: "%s"}
      ssh: {key: ~/.ssh/id, jump: a@b, people: ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA me"]}
  here: {host: {scope: user}}
agents:
  hermes:
    kind: hermes
    version: 0.19.0
    place: home
    runtime: docker
    machine: {vmid: 105, swap: 0, net: {address: 192.0.2.5/24, gateway: 192.0.2.1}, dns: [1.1.1.1], tags: [ai]}
    state: {size: 10G, pet: {vmid: 999, name: pet}}
    mounts: [{host: /a, path: /b, read_only: true}]
    container: {image: "a:b", volumes: ["/a:/b:ro"], cpus: 1.5, shm_size: 1G}
    secrets: {A: {env: A}, TELEGRAM_BOT_TOKEN: {age: s.age, key: t}, C: {command: [pass, c]}}
    environment_files: [{sops: s.yaml, key: a.b}]
    auth: {from: {file: auth.json}}
    documents: {SOUL.md: hi, a/b.md: {text: x}}
    connectors: {telegram: {allow: [1, x], home_channel: 1}}
    mcp_servers: {a: {command: npx, args: [x], timeout: 5s}, b: {url: "https://x", headers: {A: b}}}
    expose: {api_server: {}, web: 80}
    dashboard: true
  gate: {kind: litellm, version: "1.108", place: here, runtime: process, settings: {model_list: []}}
  web: {kind: service, place: home, command: [sleep, inf], health: {http: "http://127.0.0.1:80/"}}
""" % ("0" * 64)
FILES = [(DATA / "good.yaml").read_text(), RICH]
LINE = re.compile(r"(paddock\.yaml(:\d+:\d+)?|--set[^:]*): .+")
# Words that show internals.
INNER = re.compile(
    r"pydantic|validation error|input should|<class|Kind\.|object at 0x|Traceback|\^\[|NoneType|\bdict\b"
)


def is_clean(text: str) -> None:
    """Assert that the text gives a spec, or an error with a position and without internals."""
    error = mistake_in(lambda: parse(text, "paddock.yaml"))
    event("spec" if error is None else "error")
    if error:
        assert error.exit_code == Exit.BAD_INPUT
        assert all(LINE.match(line) for line in error.message.split("\n")), error.message
        assert not INNER.search(error.message), error.message


def mistake_in(what: Callable[[], object]) -> BadInput | None:
    try:
        what()
    except BadInput as error:
        return error
    return None


FUZZ = settings(max_examples=by_level(100, 700), deadline=None, suppress_health_check=list(HealthCheck))

PIECES = st.one_of(
    st.text(max_size=8),
    st.sampled_from(["&a ", "*a", "<<: ", "!!x ", "? ", "- ", ": ", *"{}[]#%\t'\"", "|\n", "---\n"]),
    st.sampled_from(
        ["null", "true", "1e999", ".inf", "0x1G", "\ud7ff", "\x00", "${A}", "~", "2026-01-31", "=", "\ufeff"]
    ),
)


@FUZZ
@given(st.data())
def test_damaged_text_gives_a_spec_or_a_clean_error(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(FILES))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text)))
        until = data.draw(st.integers(at, min(len(text), at + 25)))
        text = text[:at] + data.draw(PIECES) + text[until:]
    is_clean(text)


@FUZZ
@given(st.data())
def test_moved_lines_give_a_spec_or_a_clean_error(data: st.DataObject) -> None:
    lines = data.draw(st.sampled_from(FILES)).splitlines(keepends=True)
    for _ in range(data.draw(st.integers(1, 3))):
        line = lines.pop(data.draw(st.integers(0, len(lines) - 1)))
        indent = data.draw(st.sampled_from(["", " ", "  ", "      "]))
        lines.insert(data.draw(st.integers(0, len(lines))), indent + line.lstrip() if indent else line)
    is_clean("".join(lines))


def known_keys() -> list[str]:
    found: set[str] = set()

    def walk(model: Any) -> None:
        for name, field in keys(model).items():
            found.add(name)
            inner = model_in(field.annotation)
            if inner is not None:
                walk(inner)

    for model in (Spec, PlaceSpec, AgentSpec, Source, *KINDS.models.values()):
        walk(model)
    return sorted(found)


KEYS = st.one_of(st.sampled_from(known_keys()), st.text(max_size=6), st.sampled_from(["a.b", "0", "<<", "hermes"]))
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**25), 10**25),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=12),
    st.sampled_from(["10G", "5s", "/a", "../a", "dhcp", "192.0.2.1/24", "hermes", "home", "https://a", "x" * 300]),
)
TREES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=12
)
PARSED = [read(text, "x").data for text in FILES]


def paths(node: Any, above: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    below = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    return [above, *(path for key, value in below for path in paths(value, (*above, key)))]


@FUZZ
@given(st.data())
def test_changed_values_give_a_spec_or_a_clean_error(data: st.DataObject) -> None:
    tree = copy.deepcopy(data.draw(st.sampled_from(PARSED)))
    for _ in range(data.draw(st.integers(1, 3))):
        *above, last = data.draw(st.sampled_from(paths(tree)[1:]))
        node = tree
        for part in above:
            node = node[part]
        match data.draw(st.sampled_from(["replace", "remove", "rename", "add"])):
            case "replace":
                node[last] = data.draw(TREES)
            case "remove":
                del node[last]
            case "rename" if isinstance(node, dict):
                node[data.draw(KEYS)] = node.pop(last)
            case _ if isinstance(node, dict):
                node[data.draw(KEYS)] = data.draw(TREES)
        if not paths(tree)[1:]:
            break
    is_clean(json.dumps(tree))


@settings(FUZZ, max_examples=by_level(100, 400))
@given(TREES)
def test_random_values_give_a_spec_or_a_clean_error(tree: Any) -> None:
    is_clean(json.dumps(tree))


@settings(FUZZ, max_examples=by_level(50, 200))
@given(
    st.lists(st.sampled_from(["agents", "hermes", "machine", "mounts", "0", "1", "a.b", ""]), max_size=5),
    PIECES,
    st.text(),
)
def test_any_text_for_set_gives_a_value_or_a_clean_error(path: list[str], value: str, text: str) -> None:
    tree = read(RICH, "paddock.yaml")
    for assignment in (".".join(path) + "=" + value, text):
        error = mistake_in(partial(overridden, tree, assignment))
        assert error is None or not INNER.search(error.message)


@settings(FUZZ, max_examples=by_level(50, 200))
@given(st.binary(max_size=60))
def test_random_bytes_give_a_clean_error(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzzed.yaml"
    path.write_bytes(content)
    with pytest.raises(BadInput):
        load(path)
