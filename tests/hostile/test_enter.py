"""Programs and variables that the agent planted do not reach root when it enters the agent's machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from hostile import agents
from hostile.ground import ATTACKER, Machine, as_root
from hostile.stubs import ENGINE_STUB
from paddock.file.agent_id import AgentId
from paddock.kinds import KINDS
from paddock.kinds.hermes.spec import HermesSpec
from paddock.runtimes.engine.runtime import Engine

pytestmark = as_root

CANARY: Final = "/root/taken"  # only root can write it
PROGRAMS: Final = ("setpriv", "env", "sh", "cat", "grep", "cd", "id", "python3", "command", "su", "runuser", "docker")
PLANT: Final = """
mkdir -p "$1/.local/bin" && cd "$1/.local/bin" || exit
shift
for name; do
    echo '#!/bin/sh' >"$name"
    echo 'if [ -w /root ]; then echo "$0" >>/root/taken; fi' >>"$name"
    echo 'PATH=/usr/bin:/bin exec "${0##*/}" "$@"' >>"$name"
    chmod 755 "$name"
done
"""


def plant(ground: Machine, home: str) -> None:
    ground.agent(PLANT, home, *PROGRAMS)
    assert ground.exists(f"{home}/.local/bin/setpriv"), "the attack did not run"


@pytest.mark.parametrize("egress", ["open", []], ids=["open", "limited"])
def test_a_planted_program_does_not_run_as_root_when_root_enters(ground: Machine, egress: Any) -> None:
    runtime = agents.systemd(network={"egress": egress})
    agents.installed(ground, runtime)
    plant(ground, runtime.paths.home)
    result = ground.run(runtime.enter(["/bin/sh", "-c", 'echo "$(/usr/bin/id -u) $PATH $KEY"']))
    assert not ground.exists(CANARY), f"the agent became root: {ground.read(CANARY)}"
    assert result.ok, result.err
    uid, path, key = result.out.strip().split(" ", 2)
    assert uid == str(ATTACKER)
    assert path.startswith(f"{runtime.paths.home}/.local/bin:"), "the agent's programs lost the agent's PATH"
    assert key == agents.SECRET


@pytest.mark.parametrize("script", ["enter", "start"])
def test_a_planted_program_does_not_run_as_root_in_a_container(ground: Machine, script: str) -> None:
    runtime = agents.docker()
    ground.stub("docker", ENGINE_STUB)
    agents.installed(ground, runtime)
    home = runtime.inside.home
    ground.root('mkdir -p "$1" && mount --bind "$2" "$1"', home, runtime.paths.home)  # as in a container
    plant(ground, home)
    argv = runtime.enter(["/usr/bin/id", "-u"]) if script == "enter" else ["/bin/sh", f"{runtime.paths.etc}/start"]
    # An image may set a PATH that includes directories of the agent.
    result = ground.run(argv, env={"PATH": f"{home}/.local/bin:/usr/bin:/bin"} if script == "start" else None)
    assert not ground.exists(CANARY), f"the agent became root: {ground.read(CANARY)}"
    assert result.ok, result.err
    assert script == "start" or result.out.strip() == str(ATTACKER)


def test_the_entrypoint_of_an_image_has_no_directory_of_the_agent_on_its_path() -> None:
    """The entrypoint runs as root, with the environment that Paddock adds."""
    hermes = HermesSpec.model_validate(
        {
            "kind": "hermes",
            "version": "0.19.0",
            "place": "here",
            "runtime": "docker",
            "container": {"image": "hermes:1"},
            "settings": {"model": "x"},
        }
    )
    runtime = Engine(AgentId("home", "bee"), hermes, Path("/"))
    bundle = runtime.bundle(KINDS[hermes.kind].workload(hermes, runtime.inside, ""), None, mounted=False)
    assert ".local/bin" not in bundle.files["environment"].content


def test_programs_of_root_do_not_get_variables_of_the_agent(ground: Machine) -> None:
    """Variables such as LD_PRELOAD would load the agent's code into setpriv, which runs as root."""
    runtime = agents.systemd()
    agents.installed(ground, runtime, agents.workload(runtime, LD_PRELOAD=f"{runtime.paths.home}/evil.so"))
    ground.agent('echo "not a library" >"$1/evil.so"', runtime.paths.home)
    result = ground.run(runtime.enter(["/bin/true"]))
    # The loader prints one error for each program that tried to load the library. Only the agent's program may.
    complaints = [line for line in result.err.split("\n") if "evil.so" in line]
    assert len(complaints) == 1, "a program of root loads a library of the agent: " + "\n".join(complaints)


def test_the_environment_of_root_does_not_reach_the_agent(ground: Machine) -> None:
    runtime = agents.systemd()
    agents.installed(ground, runtime)
    result = ground.run(runtime.enter(["/usr/bin/env"]), env={"PVE_TOKEN": "root@pam!all=secret", "TERM": "vt100"})
    assert result.ok, result.err
    assert "PVE_TOKEN" not in result.out, "the agent got the operator's token"
    assert "TERM=vt100" in result.out
