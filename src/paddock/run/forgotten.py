"""What an agent would no longer know if its state became one of an earlier time, for a person to agree to."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

from paddock import clock
from paddock.guests import Guest
from paddock.run.resolve import Located
from paddock.runtimes.isolation import Isolation
from paddock.runtimes.program import program


def since(agent: Located, guest: Guest, at: int) -> str:
    """Return what an agent has learned since a time, in seconds since the epoch, in words."""
    made = datetime.fromtimestamp(at, UTC)
    age = timedelta(seconds=int((clock.now() - made).total_seconds()))
    messages = agent.recipe.keeping(agent.spec).messages
    counted = ""
    if messages:
        user = agent.spec.user
        order = {
            "database": f"{agent.paths.home}/{messages.database}",
            "query": messages.count,
            "since": at,
            # Without an account of its own, the agent has the rights of the account that runs this.
            "account": [user.uid, user.gid or user.uid] if Isolation.ACCOUNT in agent.runtime.confines else None,
        }
        result = guest.run(["python3", "-I", "-c", program("paddock.stream.counting"), json.dumps(order)])
        number = result.out.strip()
        known = result.ok and number.isdecimal() and len(number) < 12
        counted = f": {number} messages" if known else ": an unknown number of messages"
    return f"{agent.name} would forget what it learned in {age} since {made:%Y-%m-%d %H:%M} UTC{counted}"
