"""The shapes that an agent can have: its kind, its place, its runtime and where its code comes from."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from paddock.file.models.agent import RuntimeName
from paddock.kinds import KINDS

AGENT: Final = "bee"
BASE: Final = "local:vztmpl/debian-12-with-engines.tar.zst"  # an archive of Proxmox has no engine, and is refused

# `user` is a host without root, and `here` is the machine that runs Paddock.
PLACES: Final[Mapping[str, dict[str, Any]]] = {
    "proxmox": {
        "proxmox": {
            "url": "https://node:8006",
            "node": "pve",
            "token": {"file": "token"},
            "storage": "local-lvm",
            "base": {"volume": BASE},
            "ssh": {"key": "id"},
        }
    },
    "host system": {"host": {"address": "192.0.2.20"}},
    "host user": {"host": {"address": "192.0.2.20", "user": "someone", "scope": "user"}},
    "host here": {"host": {}},
}
CODE: Final[Mapping[str, dict[str, Any]]] = {
    "base": {"base": "debian:12"},
    "image": {"image": "nousresearch/hermes-agent:v1"},
}
OWN_KEYS: Final[Mapping[str, dict[str, Any]]] = {
    "hermes": {
        "version": "0.19.0",
        "settings": {
            "model": {"provider": "custom:llm", "default": "m"},
            "providers": {"llm": {"base_url": "http://192.0.2.22:4000/v1", "key_env": "A_KEY"}},
        },
        "secrets": {"A_KEY": {"env": "A_KEY"}},
    },
    "litellm": {
        "version": "1.106.2",
        "settings": {"model_list": [{"model_name": "m", "litellm_params": {"model": "openai/m"}}]},
        "secrets": {"LITELLM_MASTER_KEY": {"env": "A_KEY"}},
    },
    "service": {"command": ["/usr/bin/bee"], "health": {"port": 8080}, "secrets": {"A_KEY": {"env": "A_KEY"}}},
}  # The other kinds have the same shapes. Each runtime once is enough: what kinds do is the same in all places.
_OF_OTHER_KINDS: Final = ("proxmox systemd", "proxmox docker base", "host user podman base", "host here process")


@dataclass(frozen=True)
class Shape:
    """One shape, and the smallest file with an agent of it."""

    name: str  # its words
    file: dict[str, Any]

    @property
    def kind(self) -> str:
        return self.name.split()[0]

    def has(self, words: str) -> bool:
        """Whether the shape has all of these words."""
        return set(words.split()) <= set(self.name.split())


def every_shape() -> Iterator[Shape]:
    """Yield every combination that may be a shape; `check` decides which of them are."""
    for kind, place, runtime in itertools.product(KINDS, PLACES, RuntimeName):
        for code in CODE if runtime.is_engine else ("",):
            name = " ".join(filter(None, (place, runtime, code)))
            if (runtime is RuntimeName.PROCESS) != (place == "host here"):
                continue  # this machine is a host like others; only the process runtime needs it
            if kind != "hermes" and name not in _OF_OTHER_KINDS:
                continue
            container = {"container": CODE[code]} if code else {}
            agent = {"kind": kind, "place": "home", "runtime": str(runtime), **container, **OWN_KEYS[kind]}
            yield Shape(
                f"{kind} {name}", {"project": "home", "places": {"home": PLACES[place]}, "agents": {AGENT: agent}}
            )
