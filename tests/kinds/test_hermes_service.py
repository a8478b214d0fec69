"""The key `service` decides how the messaging process of Hermes is started and restarted."""

from __future__ import annotations

from typing import Any

import pytest

from paddock.file.agent_id import AgentId
from paddock.file.models.agent import Restart
from paddock.kinds import parse
from paddock.kinds.hermes.recipe import Hermes
from paddock.runtimes.systemd.runtime import Systemd

FILE = """\
project: home
places: {here: {host: {}}}
agents:
  hermes:
    kind: hermes
    version: 0.19.0
    place: here
    service: {args: [--loud], restart: on-failure, restart_delay: 7s}
"""


def unit_of(text: str) -> str:
    agent: Any = parse(text, "paddock.yaml").agents["hermes"]
    runtime = Systemd(AgentId("home", "hermes"), agent)
    bundle = runtime.bundle(Hermes().workload(agent, runtime.paths, "/code"), "t1", mounted=False)
    return bundle.files["units/paddock-home_hermes.gateway.service"].content


@pytest.mark.parametrize("restart", [*Restart])
def test_every_restart_policy_of_systemd_is_the_one_of_the_unit(restart: Restart) -> None:
    assert f"Restart={restart}\n" in unit_of(FILE.replace("on-failure", restart))


def test_service_args_and_restart_delay_are_in_the_unit_of_the_messaging_process() -> None:
    unit = unit_of(FILE)
    assert '"gateway" "run" "--external-supervisor" "--loud"\n' in unit
    assert "Restart=on-failure\n" in unit
    assert "RestartSec=7\n" in unit
