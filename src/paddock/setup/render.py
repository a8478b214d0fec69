"""Write answers as a paddock.yaml: short, with comments, for people to read and change."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Final

from paddock.setup.answers import AGENT, PLACE, Answers, Model, OnHost, OnNode, Shape

VERSION: Final = "0.19.0"
_COLUMN: Final = 43  # where comments begin
_PLAIN: Final = re.compile(r"[A-Za-z~./][A-Za-z0-9_~./@+=-]*(:[A-Za-z0-9_/~.+=-]+)*")
_WORDS: Final = {"~", "y", "n", "yes", "no", "on", "off", "true", "false", "null"}


def render(answers: Answers) -> str:
    """Return the text of paddock.yaml."""
    return "".join(f"{line}\n" for line in _lines(answers))


def shape_of(place: OnNode | OnHost) -> Shape:
    """Return the shape whose example file shows the other options of a place."""
    match place:
        case OnNode():
            return Shape.DOCKER_LXC if place.docker else Shape.PET_AND_CATTLE
        case OnHost():
            return Shape.CONTAINER if place.runtime in ("docker", "podman") else Shape.NATIVE


def _lines(answers: Answers) -> Iterator[str]:
    place = answers.place
    yield "# yaml-language-server: $schema=./paddock.schema.json"
    yield "# Written by `paddock init`. `paddock plan` shows what would change, and `paddock up` changes it."
    yield f"# `paddock init --example {shape_of(place)} FOLDER` writes a file that shows every option."
    yield ""
    yield _said(f"project: {scalar(answers.project)}", "agents of another project are never touched")
    yield ""
    yield "places:"
    yield f"  {PLACE}:"
    yield from _node(place) if isinstance(place, OnNode) else _host(place)
    yield ""
    yield "agents:"
    yield f"  {AGENT}:"
    yield f"    kind: {AGENT}"
    yield f"    version: {VERSION}"
    yield f"    place: {PLACE}"
    yield from _runtime(place)
    yield from _model(answers.model)
    yield _said(f"    connectors: {{api_server: {{port: {answers.port}}}}}", "its API, on the machine's loopback")
    yield from _network(place)


def _node(place: OnNode) -> Iterator[str]:
    yield "    proxmox:"
    yield f"      url: {place.url}"
    if place.fingerprint:
        yield "      # of the node's certificate; Paddock talks to no other machine"
        yield f"      fingerprint: {place.fingerprint}"
    yield f"      node: {scalar(place.node)}"
    yield _said(f"      token: {place.token}", "the API token")
    yield _said(f"      storage: {scalar(place.storage)}", "for root disks and the agent's state")
    if not place.templates:
        yield _said("      template: none", "this storage can hold no template")
    if place.base.url:
        yield "      base:                                # the node downloads it at the first `up`"
        yield f"        url: {scalar(place.base.url)}"
        yield f"        sha512: {place.base.sha512}"
        yield f"        storage: {scalar(place.base.volume.partition(':')[0])}"
    else:
        yield f"      base: {scalar(place.base.volume)}"
    yield f"      bridge: {scalar(place.bridge)}"
    yield _said(f"      ssh: {{key: {scalar(place.ssh_key)}}}", "logs in to the machines that Paddock makes")
    yield "      # With `mounts`, each recreate needs root; `ssh: {root: root@NODE}` lets Paddock run its commands."


def _host(place: OnHost) -> Iterator[str]:
    if place.address is None:
        scope = "{scope: user}" if place.rootless and place.runtime != "process" else "{}"
        yield _said(f"    host: {scope}", "this machine")
        return
    yield "    host:"
    yield f"      address: {scalar(place.address)}"
    yield f"      user: {scalar(place.user)}"
    if place.port != 22:
        yield f"      port: {place.port}"
    if place.key:
        yield f"      key: {scalar(place.key)}"
    if place.host_key:
        yield _said(f"      host_key: {scalar(place.host_key)}", "Paddock talks to no other machine")
    if place.rootless:
        yield _said("      scope: user", "without root, in this account")


def _runtime(place: OnNode | OnHost) -> Iterator[str]:
    if isinstance(place, OnNode):
        yield f"    runtime: {'docker' if place.docker else 'systemd'}"
        machine = f"{{cores: 2, memory: 4G, disk: {place.sizes.disk}G}}"
        yield _said(f"    machine: {machine}", "recreated when needed; the state is kept")
        pet = f", pet: {place.pet}" if place.pet else ""
        yield _said(f"    state: {{size: {place.sizes.state}G{pet}}}", "its memory and files, owned by that container")
        engine, install = place.docker, place.docker
    else:
        yield f"    runtime: {place.runtime}"
        engine, install = place.runtime in ("docker", "podman"), place.install
    if engine:
        yield "    container:"
        yield _said('      base: "python:3.12-slim"', "an image with Python; the agent's code is mounted into it")
        if install:
            name = "Docker in the machine" if isinstance(place, OnNode) else place.runtime
            yield _said("      install: true", f"Paddock installs {name}")


def _model(model: Model) -> Iterator[str]:
    provider = f"custom:{model.provider}" if model.url else model.provider
    context = f", context_length: {model.context}" if model.context else ""
    yield "    settings:" + " " * (_COLUMN - 13) + "# Hermes' own config.yaml"
    yield f"      model: {{provider: {scalar(provider)}, default: {scalar(model.name)}{context}}}"
    if model.url:
        key = f"\n          key_env: {model.variable}" if model.variable else ""
        yield f"      providers:\n        {model.provider}:\n          base_url: {scalar(model.url)}{key}"
        yield f"          default_model: {scalar(model.name)}"
    if model.variable:
        yield _said(f"    secrets: {{{model.variable}: {model.key}}}", "the model's key")


def _network(place: OnNode | OnHost) -> Iterator[str]:
    if isinstance(place, OnHost) and (place.rootless or place.runtime == "process"):
        yield _said("    network: {egress: open}", "a filter of its connections needs root")
    else:
        yield _said("    network: {egress: internet}", "no private addresses but those named in this file")


def _said(text: str, comment: str) -> str:
    """Return a line with a comment, in the column of comments if there is room."""
    return f"{text:<{_COLUMN - 1}} # {comment}" if len(text) < _COLUMN else f"{text}  # {comment}"


def scalar(text: str) -> str:
    """Return a text as a YAML scalar, in quotes only if it needs them."""
    return text if _PLAIN.fullmatch(text) and text.lower() not in _WORDS else json.dumps(text, ensure_ascii=False)
