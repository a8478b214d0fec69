"""Finding 21: two runs through two addresses of one host worked on one agent at the same time."""

from __future__ import annotations

import threading

from hostile import agents
from hostile.ground import Machine, as_root
from paddock.process import Result

pytestmark = as_root

SLOW = '[ "$1" != daemon-reload ] || sleep 3'


def test_a_second_run_on_one_host_is_refused_while_the_first_is_at_work(ground: Machine) -> None:
    """The lock is on the host, because the two runs may be on two operators' machines."""
    runtime = agents.systemd()
    ground.stub("systemctl", SLOW)
    first: list[Result] = []
    running = threading.Thread(target=lambda: first.append(agents.apply(ground, runtime)))
    running.start()
    while "systemctl daemon-reload" not in ground.calls:
        assert running.is_alive()
    again, removal = agents.apply(ground, runtime), ground.run(runtime.remove())
    running.join()
    assert first[0].ok, first[0].err
    assert not again.ok, "two runs configured one agent at the same time"
    assert "another run is configuring or removing this agent" in again.err
    assert not removal.ok, "a run removed an agent that another run was configuring"
    ground.stub("systemctl", "")
    assert agents.apply(ground, runtime).ok
