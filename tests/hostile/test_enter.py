"""Programs that the agent planted do not run as root when root enters the agent's container.

tests/live/test_leaving.py has agents under systemd.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

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
