"""`paddock init` as a new user plays it, at a terminal: to a verified agent, with the text that the tutorial shows."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from levels import slow_proof
from live.node import Node
from paddock.demo import Stage
from pvebox.standins.stage import MODEL_KEY, model_server, node_server, stage_folder
from terminal_user import TerminalUser, at_a_terminal
from tutorial import same_in_the_tutorial

pytestmark = pytest.mark.live

PADDOCK = [sys.executable, "-m", "paddock"]
ASKED = 'paddock ask hermes "Remember: the gate code is 7421"'
VALUE = re.compile(r"\bvalue\W+([0-9a-f-]{36})\b")


@dataclass
class Newcomer:
    """A person with an empty home and an empty folder, and the text on their terminal."""

    folder: Path
    environment: dict[str, str]
    commands: list[str] = field(default_factory=list)
    shown: list[str] = field(default_factory=list)

    @classmethod
    def below(cls, folder: Path) -> Newcomer:
        own, home = folder / "farm", folder / "home"
        own.mkdir()
        home.mkdir()
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "PADDOCK_"))}
        cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
        return cls(own, {**kept, "HOME": str(home), "XDG_CACHE_HOME": cache, "TERM": "xterm", "COLUMNS": "80"})

    @contextmanager
    def at_terminal(self, *words: str) -> Iterator[TerminalUser]:
        """Type a command at the terminal."""
        self.commands.append(shlex.join(["paddock", *words]))
        with at_a_terminal([*PADDOCK, *words], self.folder, self.environment) as user:
            yield user
        self.shown.append(f"$ {self.commands[-1]}\n{user.shown}")

    def paddock(self, *words: str, told: bool = True, seconds: float = 300) -> str:
        """Run a command without a terminal, and return what it prints."""
        done = subprocess.run(
            *([*PADDOCK, *words],),
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=seconds,
        )
        assert done.returncode == 0, done.stdout
        if told:
            quoted = " ".join(f'"{word}"' if " " in word else word for word in words)
            self.commands.append(f"paddock {quoted}")
            self.shown.append(f"$ {self.commands[-1]}\n{done.stdout}")
        return done.stdout

    def text(self, values: Mapping[str, str]) -> str:
        """Return what was shown, with the values of this run replaced."""
        text = "\n".join(self.shown)
        for value, name in values.items():
            text = text.replace(value, name)
        return text


def paste(lines: str, state: Path) -> str:
    """Run the lines that Paddock printed, as root on the node. Return the value of the token, if one was created."""
    value = ""
    for line in lines.splitlines():
        if line.startswith("pveum "):
            door = [sys.executable, "-m", "pvebox", "root", "--state", str(state), "--", *shlex.split(line)]
            done = subprocess.run(door, capture_output=True, text=True)
            assert done.returncode == 0, (line, done.stderr)
            found = VALUE.search(done.stdout)
            value = found[1] if found else value
    return value


def finish(person: Newcomer) -> None:
    """Bring the agent up and ask it, and check what `check` and `doctor` say about the file."""
    file = person.folder / "paddock.yaml"
    written = file.read_bytes()
    assert "hermes: up and working" in person.paddock("up")
    assert "7421" in person.paddock("ask", "hermes", "Remember: the gate code is 7421")
    assert len(person.commands) == 3
    assert file.read_bytes() == written, "no file was edited"
    person.paddock("check", told=False)
    assert "✗" not in person.paddock("doctor", told=False)


@pytest.fixture
def stage(capsys: Any) -> Iterator[tuple[Path, dict[str, Any], str]]:
    """A node of its own, which no other test has used, and a model on its network."""
    with stage_folder() as folder, node_server(folder) as node, model_server(folder, node["gateway"]) as model:
        yield folder, node, model["url"]


def test_a_newcomer_with_a_node_gets_an_agent_that_answers(stage: tuple[Path, dict[str, Any], str]) -> None:
    folder, node, models = stage
    address = str(node["url"]).removeprefix("https://")
    person = Newcomer.below(folder)
    with person.at_terminal("init") as user:
        user.answer("Number or name [pet-and-cattle]: ", "1")
        user.answer("like 192.168.1.10: ", address)
        user.answer("(yes or no): ", "yes")
        lines = user.wait_for("The token's value (not shown): ")
        user.type(paste(lines, folder / "sandbox") + "\n")
        paste(user.wait_for("Waiting until they have run …"), folder / "sandbox")
        user.answer("`new` to make one [new]: ", "")
        user.answer("Number, name or URL: ", models)
        user.answer("API key of the model (not shown): ", MODEL_KEY)
        assert user.end() == 0, user.shown
    assert user.typed + 1 <= 12
    finish(person)
    with (folder / "sandbox/cluster.json").open() as cluster:
        assert "paddock@pve!agents" in cluster.read()
    for secret in (MODEL_KEY, *node["tokens"].values()):
        assert secret not in "".join(person.shown) + (person.folder / "paddock.yaml").read_text()
    values = {address: "192.168.1.10:8006", models: "http://192.168.1.22:4000/v1"}
    assert same_in_the_tutorial("node", person.text(values))


@slow_proof
def test_a_newcomer_with_a_host_gets_an_agent_that_answers(stage: tuple[Path, dict[str, Any], str]) -> None:
    folder, node, models = stage
    person = Newcomer.below(folder)
    host = a_host(folder, node, person)
    with person.at_terminal("init") as user:
        user.answer("Number or name [pet-and-cattle]: ", "3")
        user.answer("[here]: ", f"root@{host}")
        user.answer("(yes or no): ", "yes")
        user.answer("Number or name [systemd]: ", "")
        user.answer("Number, name or URL: ", models)
        user.answer("API key of the model (not shown): ", MODEL_KEY)
        assert user.end() == 0, user.shown
    assert user.typed <= 12
    finish(person)
    assert same_in_the_tutorial("host", person.text({host: "192.168.1.30", models: "http://192.168.1.22:4000/v1"}))


def a_host(folder: Path, node: dict[str, Any], person: Newcomer) -> str:
    """Create a container that plays a Linux host, which accepts the newcomer's ssh key, and return its address."""
    from live.manual import api_client, container

    ssh = Path(person.environment["HOME"]) / ".ssh"
    ssh.mkdir(mode=0o700)
    key = str(ssh / "id_ed25519")
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "someone", "-f", key], check=True)
    for name in ("id_ed25519", "id_ed25519.pub"):
        (folder / name).write_bytes((ssh / name).read_bytes())
    place = {**node, "ssh": {"key": "id_ed25519"}}
    shown = Node(Stage(folder, person.environment))
    shown.write("paddock.yaml", {"places": {"box": {"proxmox": place}}})
    return container(shown, api_client(shown), 200)


@slow_proof
def test_a_newcomer_without_anything_gets_an_agent_in_the_sandbox() -> None:
    with stage_folder() as folder:
        person = Newcomer.below(folder)
        try:
            with person.at_terminal("init", "--sandbox") as user:
                assert user.end() == 0, user.shown
            assert user.typed == 0
            finish(person)
            assert "a sandbox" not in person.paddock("init", "--sandbox", "other", told=False), "it is found running"
        finally:
            person.paddock("sandbox", "clean", told=False)
        url = re.search(r"http://[0-9.]+:[0-9]+/v1", "".join(person.shown))
        assert same_in_the_tutorial("sandbox", person.text({url[0]: "http://10.99.0.1:4000/v1"} if url else {}))


@slow_proof
def test_a_newcomer_gets_an_agent_in_docker_in_a_machine(
    stage: tuple[Path, dict[str, Any], str], roots: dict[str, Path]
) -> None:
    """From the questions to the answer. The image comes from a file, because there is no registry here."""
    folder, node, models = stage
    person = Newcomer.below(folder)
    with person.at_terminal("init") as user:
        user.answer("Number or name [pet-and-cattle]: ", "docker-lxc")
        user.answer("like 192.168.1.10: ", str(node["url"]).removeprefix("https://"))
        user.answer("(yes or no): ", "yes")
        lines = user.wait_for("The token's value (not shown): ")
        user.type(paste(lines, folder / "sandbox") + "\n")
        paste(user.wait_for("Waiting until they have run …"), folder / "sandbox")
        user.answer("`new` to make one [new]: ", "")
        user.answer("Number, name or URL: ", models)
        user.answer("API key of the model (not shown): ", MODEL_KEY)
        assert user.end() == 0, user.shown
    image = ("--set", f"agents.hermes.container.archive={roots['base']}")
    assert "hermes: up and working" in person.paddock("up", *image, told=False, seconds=900)
    assert "7421" in person.paddock("ask", "hermes", "Remember: the gate code is 7421", told=False)
    assert "nothing to do" in person.paddock("up", *image, told=False)
