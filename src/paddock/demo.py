"""``./demo``: an agent learns a fact, its machine is destroyed and created again, and the agent recalls the fact."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import field
from pathlib import Path
from typing import Any, Final

from paddock.base.frozen import frozen
from pvebox.standins.stage import (
    MODEL_KEY,
    free_port,
    model_server,
    node_server,
    record_pid,
    removal_commands,
    stage_folder,
)

_STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

FACT: Final = "the gate code is 7421"
QUESTION: Final = "What is the gate code?"
VERSION: Final = "0.19.0"

_INTRODUCTION: Final = """\
This demo starts a real agent (Hermes), teaches it a fact, destroys its machine,
creates a new one, and asks the agent for the fact."""
_AFTERWARDS: Final = {  # they work in the directory of this repository, when nothing of the demo is left
    "./demo --keep": "the same again, but leave the agent running for you",
    "paddock init first": "describe an agent of your own, in the folder `first`",
    "paddock sandbox up --runtime memory": "a simulated Proxmox node for trials; `sandbox clean` removes it",
}
_WITH_CONTAINER: Final = {  # they work in the folder of the demo
    "paddock chat hermes": "talk to the agent",
    "paddock cycle": "destroy its machine and create a new one; watch how long that takes",
    "paddock timings --svg > timings.svg": "draw how long the steps of all runs took",
}
_WITH_PROCESSES: Final = {
    "paddock chat hermes": "talk to the agent",
    "paddock logs hermes": "read its log",
    "paddock timings --svg > timings.svg": "draw how long the steps of all runs took",
}

_AGENT: Final = """\
agents:
  hermes:
    kind: hermes
    version: {version}
    place: {place}
    runtime: {runtime}
    settings:
      model: {{provider: custom:standin, default: stand-in, context_length: 131072}}
      model_catalog: {{enabled: false}}
      providers:
        standin: {{base_url: {model}, key_env: STANDIN_KEY, default_model: stand-in, discover_models: false}}
    secrets: {{STANDIN_KEY: {{env: STANDIN_KEY}}}}
    connectors: {{api_server: {{port: {port}}}}}
"""
_NODE: Final = """\
project: home
places:
  box:
    proxmox:
      url: {url}
      node: {node}
      token: {{env: PVE_TOKEN}}
      ca: {ca}
      storage: {storage}
      base: {base}
      bridge: {bridge}
      ssh: {{key: id_ed25519}}
"""
_HERE: Final = "project: home\nplaces:\n  here: {host: {}}\n"


@frozen
class Stage:
    """A folder with a paddock.yaml, and the environment for paddock commands in it."""

    folder: Path
    environment: Mapping[str, str] = field(repr=False)

    def paddock(self, *words: str, says: str = "") -> str:
        """Announce, show and run a paddock command in the folder, and return its output. Exit if it fails."""
        print(f"\n{says}" if says else "")
        print(f"$ paddock {' '.join(_shown(word) for word in words)}", flush=True)
        command = [sys.executable, "-m", "paddock", *words]
        # The command gets its own process group: Ctrl-C must reach only the demo, which stops its processes in order.
        environment = dict(self.environment)
        running = subprocess.Popen(
            command, cwd=self.folder, env=environment, stdout=subprocess.PIPE, text=True, process_group=0
        )
        try:
            printed, _ = running.communicate()
        except BaseException:
            os.killpg(running.pid, signal.SIGINT)
            running.wait()
            raise
        print(printed, end="", flush=True)
        if running.returncode:
            raise SystemExit(f"paddock {words[0]} ended with code {running.returncode}")
        return printed


def main() -> None:
    parser = argparse.ArgumentParser(prog="./demo", description=__doc__)
    parser.add_argument(
        "--keep", action="store_true", help="leave the agent running, and print how to use and remove it"
    )
    keep = parser.parse_args().keep
    for number in _STOP_SIGNALS:
        signal.signal(number, _stop)
    print(_INTRODUCTION, flush=True)
    why_not = subprocess.run([sys.executable, "-m", "pvebox", "probe"], stdout=subprocess.PIPE, text=True)
    start = time.monotonic()
    with ExitStack() as cleanup:
        folder = cleanup.enter_context(stage_folder())
        if why_not.returncode:
            print(f"\n{why_not.stdout.strip()}\nSo the agent runs as processes of your account, without containers.")
            recalled = _run_with_processes(cleanup.enter_context(process_stage(folder)), keep)
        else:
            print("\nIt starts a simulated Proxmox node with real LXC containers, and a stand-in for a model.")
            recalled = _run_with_container(cleanup.enter_context(lxc_stage(folder)))
        if FACT not in recalled:
            raise SystemExit("The demo failed: the agent did not remember the fact.")
        print(f"\nThe agent still knows the fact. The demo took {time.monotonic() - start:.0f} s.")
        if keep:
            _print_next_steps(folder, contained=not why_not.returncode)
            os._exit(0)  # skips the clean-up of the block
        print("Now the demo removes everything that it has started.", flush=True)
    print(f"\n{_try(_AFTERWARDS, here=True)}", flush=True)


def _stop(*_: object) -> None:
    """Exit with a clean-up that a second signal cannot interrupt."""
    for number in _STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    print("\nStopped. Cleaning up.", file=sys.stderr, flush=True)
    sys.exit(1)


def _print_next_steps(folder: Path, *, contained: bool) -> None:
    (folder / "kept").touch()
    print(f"""
The agent is still running. Go to it first:
  cd {shlex.quote(str(folder))} && . ./environment

{_try(_WITH_CONTAINER if contained else _WITH_PROCESSES)}

To remove it:
{removal_commands(folder)}""")
    sys.stdout.flush()


def _try(commands: Mapping[str, str], *, here: bool = False) -> str:
    """Return three commands to try, each with its purpose. With `here`, they work in the current directory."""
    program = shlex.quote(os.path.relpath(Path(sys.executable).with_name("paddock"))) if here else "paddock"
    shown = [f"  # {what}\n  {command.replace('paddock ', f'{program} ', 1)}" for command, what in commands.items()]
    return "\n".join(["Three things to try:", *shown])


def _run_with_container(stage: Stage) -> str:
    """Run the demo with a container that is destroyed and created again, and return the agent's last answer."""
    stage.paddock("up", says="Create the machine and the agent. The first time, this builds a template with its code.")
    stage.paddock("ask", "hermes", f"Remember: {FACT}", says="Teach the agent a fact.")
    stage.paddock("down", says="Destroy the machine. The agent's memory stays: it is on a volume of its own.")
    stage.paddock("up", says="Create a new machine from the template, with the old memory.")
    recalled = stage.paddock("ask", "hermes", QUESTION, says="Ask the agent for the fact.")
    stage.paddock("status", says="Show the machine, its state and its health.")
    stage.paddock("timings", says="Compare how many seconds each step of the runs took.")
    return recalled


def _run_with_processes(stage: Stage, keep: bool) -> str:
    """Run the demo with processes that are removed and started again, and return the agent's last answer."""
    with running_agent(stage, says="Install the agent's code, and run the agent in the background."):
        stage.paddock("ask", "hermes", f"Remember: {FACT}", says="Teach the agent a fact.")
    stage.paddock("down", says="Remove the agent and its configuration. Its memory stays.")
    with running_agent(stage, keep, says="Set the agent up again, with the old memory, and run it."):
        recalled = stage.paddock("ask", "hermes", QUESTION, says="Ask the agent for the fact.")
        stage.paddock("status", says="Show the agent, its state and its health.")
    stage.paddock("timings", says="Compare how many seconds each step of the runs took.")
    return recalled


@contextmanager
def lxc_stage(folder: Path) -> Iterator[Stage]:
    """Run a sandbox node with real containers, and a stand-in model on its bridge."""
    with node_server(folder) as node, model_server(folder, node["gateway"]) as model:
        if not (folder / "id_ed25519").exists():
            key = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "paddock", "-f", str(folder / "id_ed25519")]
            subprocess.run(key, check=True)
        write_file(folder, _NODE.format(**node), place="box", runtime="systemd", model=model["url"], port=8642)
        token = next(iter(node["tokens"].items()))
        yield Stage(folder, environment(folder, PVE_TOKEN="=".join(token)))


@contextmanager
def process_stage(folder: Path) -> Iterator[Stage]:
    """Run a stand-in model on loopback, for an agent in processes of this machine."""
    with model_server(folder, "127.0.0.1") as model:
        write_file(folder, _HERE, place="here", runtime="process", model=model["url"], port=free_port())
        yield Stage(folder, environment(folder))


def write_file(folder: Path, places: str, **values: Any) -> None:
    text = places + _AGENT.format(version=VERSION, **values)
    (folder / "paddock.yaml").write_text(text)
    print(f"\nOne file describes the agent. This is {folder}/paddock.yaml:")
    print("".join(f"  {line}\n" for line in text.splitlines()), end="")


def environment(folder: Path, **more: str) -> dict[str, str]:
    """Return the environment: Paddock's data goes to the demo's folder, its cache stays the user's for speed."""
    own = {name: str(folder / name.lower()) for name in ("XDG_DATA_HOME", "XDG_STATE_HOME")}
    own |= {"STANDIN_KEY": MODEL_KEY, **more}
    exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in own.items())
    exports += f"export PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH\n"  # which has `paddock`
    file = folder / "environment"
    file.touch(mode=0o600)
    file.write_text(exports)
    return {**os.environ, **own}


@contextmanager
def running_agent(stage: Stage, keep: bool = False, says: str = "") -> Iterator[None]:
    """Start `paddock run` in the background, wait until the agent is healthy, and stop it when the block ends."""
    print(f"\n{says}" if says else "")
    print("$ paddock run hermes &", flush=True)
    command = [sys.executable, "-m", "paddock", "run", "hermes"]
    process = subprocess.Popen(command, cwd=stage.folder, env=dict(stage.environment), process_group=0)
    record_pid(stage.folder, process)
    try:
        _wait_until_healthy(stage, process)
        yield
    finally:
        if not keep:
            process.terminate()
            process.wait()


def _wait_until_healthy(stage: Stage, process: subprocess.Popen[bytes]) -> None:
    status = [sys.executable, "-m", "paddock", "status", "--json"]
    end = time.monotonic() + 300
    while time.monotonic() < end and process.poll() is None:
        begin = time.monotonic()
        done = subprocess.run(status, cwd=stage.folder, env=dict(stage.environment), stdout=subprocess.PIPE)
        if done.returncode == 0 and json.loads(done.stdout)[0]["health"] == "ok":
            return
        time.sleep(time.monotonic() - begin)  # leaves half of a processor to the agent
    raise SystemExit("The agent did not become healthy within 300 s.")


def _shown(word: str) -> str:
    return f'"{word}"' if " " in word else word


if __name__ == "__main__":
    main()
