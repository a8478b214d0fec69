"""Several agents at once, and Ctrl-C."""

from __future__ import annotations

import _thread
import threading
from typing import Any

import pytest

from paddock.base.errors import PaddockError
from paddock.core.parallel import each
from paddock.show.reporter import Reporter


class Agent:
    """An agent with nothing but a name and a reporter."""

    model_gateway = None

    def __init__(self, name: str, reporter: Reporter) -> None:
        self.name = name
        self.reporter = reporter.of(name)


def test_after_ctrl_c_no_other_agent_and_no_further_step_is_begun(
    capsys: pytest.CaptureFixture[str],
) -> None:
    reporter = Reporter(parallel=True)
    agents: Any = [Agent(name, reporter) for name in ("one", "two", "three")]
    begun: list[str] = []
    stopped, ended = threading.Event(), threading.Event()

    def verb(agent: Any) -> str:
        begun.append(agent.name)
        try:
            with agent.reporter.step("a", "the first step"):
                _thread.interrupt_main()
                assert stopped.wait(20)
            agent.reporter.say("it goes on")
            with agent.reporter.step("b", "the second step"):
                begun.append("the second step")
        finally:
            ended.set()
        return "never"

    with pytest.raises(KeyboardInterrupt), reporter.run():
        each(agents, 1, verb)
    stopped.set()
    assert ended.wait(20)
    assert begun == ["one"]
    assert "goes on" not in capsys.readouterr().err, "a line was printed after the run was stopped"


def test_a_step_of_a_run_that_has_ended_is_refused() -> None:
    reporter = Reporter()
    with reporter.run():
        pass
    with pytest.raises(PaddockError, match="the run was stopped"), reporter.of("one").step("a", "too late"):
        pass
