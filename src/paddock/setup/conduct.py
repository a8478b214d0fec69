"""The conversation from its first question to the answers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from paddock.base.frozen import frozen
from paddock.file.schema import project_name
from paddock.setup.answers import Answers, OnHost, OnNode, Shape
from paddock.setup.files import NewFile
from paddock.setup.host import HOST, ask_host
from paddock.setup.keys import Vault
from paddock.setup.model import ask_model
from paddock.setup.node import TOKEN_ID, ask_node
from paddock.setup.questions import Choice, Conversation, Question
from paddock.setup.sandbox import start

_HOST: Final = "host"
_SHAPES: Final = (
    Choice(Shape.PET_AND_CATTLE, "on Proxmox, in an LXC container"),
    Choice(Shape.DOCKER_LXC, "on Proxmox, with Docker in an LXC container"),
    Choice(_HOST, "on a Linux machine, with systemd, Docker or Podman"),
)
SHAPE: Final = Question("--shape", "Shape", "Where should the agent run?", Shape.PET_AND_CATTLE, _SHAPES)


@frozen
class Outcome:
    """The answers, and the files beside paddock.yaml that they need."""

    answers: Answers
    files: Sequence[NewFile]


def converse(talk: Conversation, folder: Path, project: str | None, *, sandbox: bool) -> Outcome:
    """Ask all questions, and return the answers and the files to write. Nothing is written yet."""
    secrets = Vault(folder)
    secrets.require_readable()
    project = project or project_name(folder)
    target = folder / "paddock.yaml"
    talk.say(f"This writes {target} for the project {project}. Ctrl-C stops: nothing is written before the end.")
    place: OnNode | OnHost
    keys: Sequence[NewFile]
    if sandbox:
        box = start(talk)
        place, key = box.place(talk, secrets)
        model, keys = box.model(secrets), key.files
    else:
        place, keys = _place(talk, secrets)
        model = ask_model(talk, secrets, place)
    return Outcome(Answers(project, place, model), [*secrets.files(), *keys])


def _place(talk: Conversation, secrets: Vault) -> tuple[OnNode | OnHost, Sequence[NewFile]]:
    shape = _shape(talk)
    if shape is not None and shape.on_proxmox:
        node, key = ask_node(talk, secrets, talk.given.get("--token-id", TOKEN_ID), docker=shape is Shape.DOCKER_LXC)
        return node, key.files
    return ask_host(talk, shape), ()


def _shape(talk: Conversation) -> Shape | None:
    """Return the shape, or None for the best shape of the machine."""
    given = talk.given.get(SHAPE.flag)
    if given in list(Shape):
        return Shape(given)
    if given is None and HOST.flag in talk.given:
        return None
    answer = talk.ask(SHAPE, str)
    return None if answer == _HOST else Shape(answer)
