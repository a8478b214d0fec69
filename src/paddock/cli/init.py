"""``paddock init``: ask questions, and write a first paddock.yaml."""

from __future__ import annotations

import shlex
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from paddock.base.errors import BadInput, Exit
from paddock.cli import verb
from paddock.setup.answers import Shape


class Where(StrEnum):
    PET_AND_CATTLE = "pet-and-cattle"
    DOCKER_LXC = "docker-lxc"
    CONTAINER = "container"
    NATIVE = "native"
    HOST = "host"


# Questions that remain with a sandbox.
_ON_ANY_NODE = {"--storage", "--bridge", "--base", "--ssh-key"}


def _answer(flag: str, words: str, metavar: str | None = None) -> Any:
    return typer.Option(flag, help=words, metavar=metavar, rich_help_panel="Answers")


@verb(
    "paddock init",
    "paddock init --sandbox",
    "paddock init --shape native --host root@192.168.1.30 --provider openrouter --model-key-env OPENROUTER_API_KEY"
    " --model MODEL --yes",
    "paddock init --example docker-lxc docs/",
)
def init(
    folder: Annotated[Path, typer.Argument(help="Folder to write into.")] = Path(),
    sandbox: Annotated[
        bool, typer.Option("--sandbox", help="Start a simulated Proxmox node on this machine, and use that.")
    ] = False,
    example: Annotated[
        Shape | None,
        typer.Option("--example", help="Ask nothing: write the commented example of a shape, which shows all options."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Ask nothing: take the default of every answer.")] = False,
    project: Annotated[
        str | None, typer.Option("--project", help="Whose agents the file describes; without it the folder's name.")
    ] = None,
    shape: Annotated[
        Where | None,
        _answer(
            "--shape",
            "pet-and-cattle: an LXC container on Proxmox. docker-lxc: Docker in an LXC container. container: Docker or"
            " Podman on a host. native: a systemd service on a host. host: what fits the host best.",
        ),
    ] = None,
    url: Annotated[str | None, _answer("--url", "Address of the Proxmox node.")] = None,
    fingerprint: Annotated[
        str | None, _answer("--fingerprint", "SHA-256 fingerprint of the node's certificate.", "7A:5C:…")
    ] = None,
    token_id: Annotated[
        str | None, _answer("--token-id", "Name of the API token that root's lines create.", "USER@REALM!NAME")
    ] = None,
    token_env: Annotated[
        str | None, _answer("--token-env", "Environment variable with the API token; the file names it.", "NAME")
    ] = None,
    token_file: Annotated[
        str | None, _answer("--token-file", "Private file with the API token, which goes to secrets.age.", "PATH")
    ] = None,
    node: Annotated[str | None, _answer("--node", "Node of the cluster.")] = None,
    storage: Annotated[str | None, _answer("--storage", "Storage for root disks and states.")] = None,
    bridge: Annotated[str | None, _answer("--bridge", "Bridge for the machines.")] = None,
    base: Annotated[str | None, _answer("--base", "Base archive.", "STORAGE:vztmpl/FILE")] = None,
    ssh_key: Annotated[
        str | None, _answer("--ssh-key", "Private ssh key for the machines; `new` makes one.", "PATH")
    ] = None,
    host: Annotated[str | None, _answer("--host", "Linux machine: `here`, or user@address.")] = None,
    host_key: Annotated[str | None, _answer("--host-key", "Public ssh key of that machine.", "'ssh-ed25519 …'")] = None,
    runtime: Annotated[str | None, _answer("--runtime", "How the agent runs on that machine.")] = None,
    provider: Annotated[
        str | None, _answer("--provider", "Provider of the model, or URL of an OpenAI-compatible server.")
    ] = None,
    model_key_env: Annotated[
        str | None, _answer("--model-key-env", "Environment variable with the model's key; the file names it.", "NAME")
    ] = None,
    model_key_file: Annotated[
        str | None, _answer("--model-key-file", "Private file with the model's key, which goes to secrets.age.", "PATH")
    ] = None,
    model: Annotated[str | None, _answer("--model", "Name of the model.")] = None,
) -> None:
    """Ask for a place and a model, check each answer, and write a paddock.yaml that is ready for `paddock up`.

    It asks a Proxmox node, a Linux machine and a model server what they offer. Every answer can be a flag; without a
    terminal, an answer that has no default has to be one. Secrets go to secrets.age, encrypted. Nothing is written
    before the last answer, and no existing paddock.yaml is changed.
    """
    given = {
        f"--{name.replace('_', '-')}": value
        for name, value in {
            **{"shape": shape, "url": url, "fingerprint": fingerprint, "token_id": token_id, "token_env": token_env},
            **{"token_file": token_file, "node": node, "storage": storage, "bridge": bridge, "base": base},
            **{"ssh_key": ssh_key, "host": host, "host_key": host_key, "runtime": runtime, "provider": provider},
            **{"model_key_env": model_key_env, "model_key_file": model_key_file, "model": model},
        }.items()
        if value is not None
    }
    if example is not None:
        if given or sandbox:
            raise BadInput("--example takes no answers", hint="leave it out to be asked")
        from paddock.file.schema import write_starter
        from paddock.kinds import KINDS

        for line in write_starter(folder, example, KINDS, project):
            print(line)
    else:
        _converse(folder, project, given, sandbox=sandbox, asks=not yes)


def _converse(folder: Path, project: str | None, given: dict[str, str], *, sandbox: bool, asks: bool) -> None:
    from paddock.setup.conduct import converse
    from paddock.setup.files import refuse_existing, write_result
    from paddock.setup.questions import Conversation, Stopped, own_terminal

    answered = given.keys() - _ON_ANY_NODE
    if sandbox and answered:
        raise BadInput(f"--sandbox answers {', '.join(sorted(answered))} itself", hint="leave one of them out")
    refuse_existing(folder)
    talk = Conversation(given, own_terminal() if asks and not sandbox else None, _tell)
    try:
        outcome = converse(talk, folder, project, sandbox=sandbox)
    except KeyboardInterrupt:
        print(file=sys.stderr)
        hint = "the sandbox may run already: `paddock sandbox clean` removes it" if sandbox else None
        raise Stopped("stopped; nothing was written", hint=hint) from None
    _tell("")
    for line in write_result(folder, outcome.answers, outcome.files):
        print(line)
    _prove(folder / "paddock.yaml")
    _print_next(folder, outcome.answers, sandbox=sandbox)


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _prove(file: Path) -> None:
    """Run `check` and `doctor` on the new file, and end with the exit code of `doctor` if a person is needed."""
    from paddock.cli.session import looking
    from paddock.file import check
    from paddock.kinds import KINDS
    from paddock.verbs.doctor import as_text, examine

    _tell("\n$ paddock check")
    print(check.summary(check.checked([file], (), KINDS)))
    _tell("\n$ paddock doctor")
    with looking([file], None) as agents:
        reports = examine(agents)
    print(as_text(reports))
    if any(report.missing for report in reports):
        _tell("\nThe file is written. `paddock doctor` shows when the rest is done; then run `paddock up`.")
        raise typer.Exit(Exit.NEEDS_PERSON)


def _print_next(folder: Path, answers: Any, *, sandbox: bool) -> None:
    inside = "" if folder.absolute() == Path.cwd() else f"cd {shlex.quote(str(folder))} && "
    starts = "run hermes" if getattr(answers.place, "runtime", "") == "process" else "up"
    print(f"\nNext: {inside}paddock {starts}", flush=True)
    if sandbox:
        from paddock.setup.sandbox import REMOVE

        _tell('Then: paddock ask hermes "Remember: the gate code is 7421"')
        _tell(f"`{REMOVE}` stops the sandbox and removes it, with all agents in it.")
