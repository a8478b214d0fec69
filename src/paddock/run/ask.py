"""Asking an agent: requests made on its own machine, because it listens on loopback only."""

from __future__ import annotations

import json
from dataclasses import asdict
from importlib import resources

from paddock.errors import PaddockError
from paddock.guests import Guest, expect
from paddock.recipes.workload import Answer, Paths, Probe, Verdict


def ask(guest: Guest, paths: Paths, probe: Probe) -> Verdict:
    """Put a probe's question to the agent and return its verdict."""
    program = (resources.files(__package__) / "request.py").read_text(encoding="utf-8")
    root = paths.etc.removesuffix("/current")
    question = {**asdict(probe.request), "env_files": [f"{root}/secrets.env", f"{root}/generated.env"]}
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
    return probe.judge(Answer(reply["status"], reply["body"]))
