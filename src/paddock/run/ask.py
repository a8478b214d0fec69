"""Asking an agent: on its own machine, because it listens on loopback only."""

from __future__ import annotations

import json
from dataclasses import asdict
from importlib import resources

from paddock.errors import PaddockError
from paddock.guests import Guest, expect
from paddock.recipes.workload import Answer, Command, OpenPort, Paths, Probe, Verdict, judged
from paddock.runtimes import Runtime


def ask(guest: Guest, paths: Paths, probe: Probe) -> Verdict:
    """Put a probe's request to the agent and return the verdict."""
    root = paths.etc.removesuffix("/current")
    question = {**asdict(probe.request), "env_files": [f"{root}/secrets.env", f"{root}/generated.env"]}
    program = (resources.files(__package__) / "request.py").read_text(encoding="utf-8")
    printed = expect(
        guest,
        "asking the agent",
        ["python3", "-I", "-c", program],
        stdin=json.dumps(question).encode(),
        deadline=probe.request.seconds + 20,
    )
    try:
        reply = json.loads(printed)
    except ValueError:
        raise PaddockError(f"the request on {guest.name} printed no answer: {printed[:200]!r}") from None
    if "refused" in reply:
        return Verdict(False, str(reply["refused"]))
    return judged(probe.judge, Answer(reply["status"], reply["body"]))


def healthy(guest: Guest, paths: Paths, runtime: Runtime, health: Probe | Command | OpenPort | None) -> Verdict:
    """Whether an agent that runs is healthy, by the means its recipe offers."""
    match health:
        case None:
            return Verdict(True, "it runs")
        case Command(argv):
            result = guest.run(runtime.enter(argv), deadline=30)
            return Verdict(result.ok, f"{' '.join(argv)} ended with {result.code}")
        case OpenPort(port):
            # bash, because it can connect without any other program.
            result = guest.run(["timeout", "3", "bash", "-c", f": < /dev/tcp/127.0.0.1/{port}"])
            return Verdict(result.ok, f"port {port} {'accepts' if result.ok else 'does not accept'} connections")
        case _:
            return ask(guest, paths, health)
