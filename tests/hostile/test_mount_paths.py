"""`check` rejects mounts over /etc or a state, and notes with a line that looks like Paddock's mark."""

from __future__ import annotations

import json
import posixpath
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hostile.ground import Machine, as_root
from hostile.private_machine import PrivateMachine, spec_of
from levels import by_level
from paddock.base.errors import BadInput
from paddock.core.files import problems
from paddock.file.agent_id import AgentId
from paddock.file.models.whole import AgentSpec, Spec
from paddock.kinds import KINDS, agent_from, parse
from paddock.places.proxmox.node.notes import Mark, Role
from paddock.runtimes.open import runtime_for

PLACES: Final = {
    "node": {
        "proxmox": {
            "url": "https://192.0.2.10:8006",
            "node": "pve",
            "token": {"env": "TOKEN"},
            "storage": "local-lvm",
            "base": "local:vztmpl/debian.tar.zst",
            "ssh": {"key": "id"},
        }
    },
    "box": {"host": {"address": "192.0.2.20"}},
}


def accepted(**agents: dict[str, Any]) -> Spec | None:
    """Return the parsed file with these agents, or None if it is rejected."""
    spec = {
        name: {"kind": "service", "command": ["x"], "user": {"name": name, "uid": 10000 + number}, **keys}
        for number, (name, keys) in enumerate(agents.items())
    }
    try:
        return parse(json.dumps({"project": "home", "places": PLACES, "agents": spec}), "paddock.yaml")
    except BadInput:
        return None


def mount(path: str, host: str = "/mnt/disk/bee", **more: Any) -> dict[str, Any]:
    return {"host": host, "path": path, **more}


@pytest.mark.parametrize("place", ["node", "box"])
@pytest.mark.parametrize(
    "path",
    [
        *("/etc", "/usr/local/bin", "/proc/sys", "/run/systemd", "/root/.ssh", "/home", "/opt", "/var/lib", "/lib64"),
        *("/etc/paddock/bee", "/opt/paddock", "/var/lib/paddock", "/var/lib/paddock/bee", "/var/lib/paddock/bee/home"),
        *("//etc", "/./etc/", "/etc//systemd", "/srv/../etc"),
    ],
)
def test_a_mount_over_a_system_folder_or_the_state_is_rejected(path: str, place: str) -> None:
    spec = accepted(bee={"place": place, "mounts": [mount(path)]})
    assert spec is None, f"{path} of the machine is covered by a directory of the host"


@pytest.mark.parametrize(
    ("container", "path"),
    [
        *(
            ({"base": "debian:12"}, path)
            for path in ("/data", "/data/sub", "/home/bee", "/etc/paddock", "/opt/paddock")
        ),
        *(({"image": "hermes:1"}, path) for path in ("/opt/data", "/opt/data/sub", "/srv/agent", "/etc/paddock")),
    ],
)
@pytest.mark.parametrize("key", ["mounts", "volumes"])
def test_a_mount_over_a_folder_that_a_container_needs_is_rejected(
    key: str, container: dict[str, Any], path: str
) -> None:
    keys: dict[str, Any] = {"place": "box", "runtime": "docker", "container": container}
    if key == "mounts":
        keys["mounts"] = [mount(path)]
    else:
        keys["container"] = {**container, "volumes": [f"/mnt/disk/bee:{path}"]}
    assert accepted(bee=keys) is None, f"{path} of the container is covered by a directory of the host"


@pytest.mark.parametrize(
    "host", ["/etc/paddock", "/etc", "/var/lib/paddock/wasp/home", "/var/lib", "/srv/wasp", "/srv", "/srv/wasp/home"]
)
def test_a_host_directory_with_secrets_or_a_state_cannot_be_mounted(host: str) -> None:
    wasp = {"place": "box", "state": {"path": "/srv/wasp"}}
    spec = accepted(bee={"place": "box", "mounts": [mount("/mnt/x", host, read_only=True)]}, wasp=wasp)
    assert spec is None, f"the agent bee sees {host}"


def test_other_mounts_are_accepted() -> None:
    mounts = [
        mount("/data"),
        mount("/srv", "/srv/big"),
        mount("/mnt"),
        mount("/home/bee/projects", "/home/me/projects"),
    ]
    assert accepted(bee={"place": "node", "mounts": mounts})
    assert accepted(bee={"place": "box", "mounts": [mount("/usr-of-the-host", "/usr", read_only=True)]})
    volumes = [
        "/var/run/docker.sock:/var/run/docker.sock",
        "/etc/localtime:/etc/localtime:ro",
        "cache:/home/bee/.cache",
    ]
    container = {"base": "debian:12", "volumes": volumes}
    assert accepted(bee={"place": "box", "runtime": "docker", "container": container, "mounts": [mount("/big")]})


@as_root
@pytest.mark.parametrize(
    "target", ["/etc/paddock", "/etc", "/", "/var/lib/paddock/wasp/home", "/srv/wasp/home", "/srv"]
)
def test_a_link_to_secrets_or_a_state_cannot_be_mounted(ground: Machine, target: str) -> None:
    machine = PrivateMachine(ground)
    machine.apply("wasp", state=None if "paddock/wasp" in target else "/srv/wasp")
    machine.at("/opt/link").symlink_to(target)
    agent = spec_of("bee", mounts=[mount("/mnt/x", "/opt/link", read_only=True)])
    found = [sentence for sentence, _ in problems(machine.guest, agent, "-", made_for_it=False)]
    assert found, f"the agent bee sees {target}"
    assert "contains Paddock's own files or an agent's state" in found[0]


@as_root
def test_a_link_to_another_directory_can_be_mounted(ground: Machine) -> None:
    machine = PrivateMachine(ground)
    machine.apply("wasp")
    machine.at("/opt/library").mkdir()
    machine.at("/opt/link").symlink_to("/opt/library")
    agent = spec_of("bee", mounts=[mount("/mnt/x", "/opt/link", read_only=True)])
    assert not list(problems(machine.guest, agent, "-", made_for_it=False))


@pytest.mark.parametrize("container", [{"base": "python:3.12-slim"}, {"image": "nousresearch/hermes-agent:latest"}])
def test_no_mount_can_cover_a_folder_that_paddock_mounts_into_a_container(container: dict[str, Any]) -> None:
    keys = {"kind": "hermes", "version": "0.19.0", "place": "box", "runtime": "docker", "container": container}
    agent = agent_from(keys)
    for path in bound(agent):
        assert accepted(bee={**keys, "mounts": [mount(path)]}) is None, path


def bound(agent: AgentSpec) -> list[str]:
    """Return the paths in the agent's container at which Paddock mounts folders of the machine."""
    runtime = runtime_for(AgentId("home", "bee"), agent, Path(), None)
    workload = KINDS[agent.kind].workload(agent, runtime.inside, "")
    words = runtime.bundle(workload, None, mounted=False).files["create"].content.split()
    return [words[at + 1].split(":")[1] for at, word in enumerate(words) if word == "--volume"]


# Generated paths

PARTS: Final = [
    *("etc", "opt", "var", "lib", "usr", "srv", "home", "root", "run", "mnt", "paddock", "bee", "wasp", "data"),
    *(".config", ".local", "share", ".ssh", "x", "", ".", ".."),
]
AT_OR_BELOW: Final = ["/bin", "/boot", "/dev", "/etc", "/lib", "/proc", "/run", "/sbin", "/sys", "/usr", "/root/.ssh"]
ITSELF: Final = ["/", "/home", "/opt", "/root", "/tmp", "/var", "/var/lib"]
OWN: Final = ["/etc/paddock", "/opt/paddock", "/var/lib/paddock"]
paths = st.builds(
    lambda parts, slash: "/" + "/".join(parts) + slash,
    st.lists(st.sampled_from(PARTS), max_size=5),
    st.sampled_from(["", "/"]),
)


def touch(one: str, other: str) -> bool:
    """Return whether two paths are equal or one contains the other."""
    one, other = (posixpath.normpath("/" + path.lstrip("/")).rstrip("/") + "/" for path in (one, other))
    return one.startswith(other) or other.startswith(one)


def is_in(path: str, folder: str) -> bool:
    return (posixpath.normpath("/" + path.lstrip("/")) + "/").startswith(folder + "/")


@settings(max_examples=by_level(100, 300), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    state=st.none() | paths,
    other=st.none() | paths,
    mounted=st.lists(st.builds(mount, paths, paths), max_size=2),
    place=st.sampled_from(["node", "box"]),
)
def test_no_accepted_path_equals_or_contains_a_protected_one(
    state: str | None, other: str | None, mounted: list[dict[str, Any]], place: str
) -> None:
    wasp = {"place": "box", **({"state": {"path": other}} if other else {})}
    bee = {"place": place, "mounts": mounted, **({"state": {"path": state}} if state else {})}
    if accepted(bee=bee, wasp=wasp) is None:
        return
    state, other = state or "/var/lib/paddock/bee", other or "/var/lib/paddock/wasp"
    sides = [each["path"] for each in mounted]
    for path in [state, *sides]:
        assert not any(is_in(path, folder) for folder in AT_OR_BELOW)
        assert posixpath.normpath(path) not in ITSELF
    for path in [*sides, *(each["host"] for each in mounted)]:
        assert not any(touch(path, folder) for folder in OWN)
    assert not any(touch(state, folder) for folder in OWN[:2])
    assert not any(touch(path, state) for path in sides)
    assert not any(touch(one, two) for at, one in enumerate(sides) for two in sides[:at])
    if place == "box":
        assert not touch(state, other)
        assert not any(touch(each["host"], memory) for each in mounted for memory in (state, other))


# Notes

LINES: Final = [
    "paddock: v=1 role=pet",
    "PADDOCK: x",
    " paddock: v=1",
    "paddock :",
    "paddock-claim: a until 2999-01-01",
]


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("text", ["{}", "mine\n{}", "mine\r\n{}\r\nmore", "mine%0A{}", "mine\u2028{}"])
def test_notes_with_a_line_that_looks_like_the_mark_are_rejected(text: str, line: str) -> None:
    spec = accepted(bee={"place": "node", "machine": {"description": text.format(line)}})
    assert spec is None, f"the machine's notes would be {notes(text.format(line))!r}"


def notes(description: str) -> str:
    """Return the notes that a new machine gets: the description and Paddock's mark."""
    return Mark(Role.CATTLE, AgentId("home", "bee"), "made-from").written_into(description)


words = st.sampled_from(
    ["paddock:", "paddock", ":", " ", "\n", "\r", "\t", "\x0b", "\u2028", "v=1", "role=pet", "x", "%0A"]
)


@settings(max_examples=by_level(100, 300), deadline=None)
@given(st.lists(words, max_size=8).map("".join) | st.text(max_size=20))
def test_the_mark_is_found_in_accepted_notes(description: str) -> None:
    if accepted(bee={"place": "node", "machine": {"description": description}}):
        mark = Mark.from_notes(notes(description))
        assert mark == Mark(Role.CATTLE, AgentId("home", "bee"), "made-from"), f"not recognised: {notes(description)!r}"
        # Proxmox adds a line break to the end of notes.
        assert Mark.from_notes(notes(description) + "\n") == mark


def test_notes_that_mention_paddock_are_accepted() -> None:
    text = "# Paddock\nThis machine belongs to paddock.\nSee also: paddock up"
    assert accepted(bee={"place": "node", "machine": {"description": text}})
