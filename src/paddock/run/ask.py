"""Ask an agent for its health or an answer, on its machine, because it listens on loopback only."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

from paddock.errors import PaddockError
from paddock.guests import Guest, expect
from paddock.recipes.workload import Answer, Command, Health, OpenPort, Paths, Probe, Verdict, judged
from paddock.runtimes import Runtime
from paddock.runtimes.program import program

_CONNECT_SECONDS: Final = 3
_COMMAND_SECONDS: Final = 30


def ask(guest: Guest, paths: Paths, probe: Probe, *, patience: float = 0.0) -> Verdict:
    """Make a probe's request on the machine and return the verdict. Repeat it while nothing listens there."""
    question = {**asdict(probe.request), "env_files": env_files(paths)}
    reply = _reply(guest, question, probe.request.seconds, patience)
    if "refused" in reply:
        return Verdict(False, str(reply["refused"]))
    return judged(probe.judge, Answer(reply["status"], reply["body"]))


def env_files(paths: Paths) -> list[str]:
    """Return the files on the machine that have the agent's secrets."""
    root = paths.etc.removesuffix("/current")
    return [f"{root}/secrets.env", f"{root}/generated.env"]


def healthy(guest: Guest, paths: Paths, runtime: Runtime, health: Health, *, patience: float = 0.0) -> Verdict:
    """Return whether a running agent is healthy, by the check that its recipe declares.

    An agent that does not listen yet is waited for, at most ``patience`` seconds.
    """
    match health:
        case None:
            return Verdict(True, "it is running")
        case Command(argv):
            result = guest.run(runtime.enter(argv), deadline=_COMMAND_SECONDS)
            return health.judge({"code": result.code})
        case OpenPort(port):
            reply = _reply(guest, {"port": port, "seconds": _CONNECT_SECONDS}, _CONNECT_SECONDS, patience)
            return Verdict(False, str(reply["refused"])) if "refused" in reply else health.judge(reply)
        case _:
            return ask(guest, paths, health, patience=patience)


def _reply(guest: Guest, question: Mapping[str, Any], seconds: float, patience: float) -> dict[str, Any]:
    printed = expect(
        guest,
        "asking the agent",
        ["python3", "-I", "-c", program("paddock.runtimes.loopback", "paddock.run.request")],
        stdin=json.dumps({**question, "patience": patience}).encode(),
        deadline=seconds + patience + 20,
    )
    try:
        return dict(json.loads(printed))
    except ValueError:
        raise PaddockError(f"the request on {guest.name} printed no answer: {printed[:200]!r}") from None
