"""The account of an agent on its machine. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from paddock.base.text import one_line
from paddock.plan.actions import CloseAccount
from paddock.plan.step import Phase, Refusal, Step

if TYPE_CHECKING:
    from paddock.plan.agent import AgentSeen, AgentWant

_ACCOUNT: Final = re.compile(r"([a-z_][a-z0-9_-]*):([a-z_][a-z0-9_-]*):(\d+):(\d+)")


def refusal(agent: str, want: AgentWant, seen: AgentSeen) -> Refusal | None:
    """Return why the agent cannot have its account here: others use its number, or the old account has a part of it."""
    old, new = _ACCOUNT.fullmatch(seen.account), _ACCOUNT.fullmatch(want.account)
    if new and new[3] in seen.numbers:
        return Refusal(
            f"uid {new[3]}, of {agent}, is in use on its machine: {one_line(seen.numbers[new[3]])[:200]}",
            f"give {agent} a number that nobody uses there, user: {{name: {new[1]}, uid: {_free(seen, int(new[3]))}}}",
            code="account.in-use",
        )
    if not old or not new:
        return None
    for kind, id_, name, number in (("account", "uid", 1, 3), ("group", "gid", 2, 4)):
        if (old[name] == new[name]) == (old[number] == new[number]):
            continue
        if old[name] == new[name]:
            what = f"{kind} {old[name]} has {id_} {old[number]}, and the file says {new[number]}"
        else:
            what = f"{id_} {old[number]} is that of {kind} {old[name]}, and the file says {new[name]}"
        return Refusal(f"on the machine of {agent}, {what}", _hint(agent, want), code="account.changed")
    return None


def _free(seen: AgentSeen, number: int) -> int:
    return next(each for each in range(number + 1, number + len(seen.numbers) + 2) if str(each) not in seen.numbers)


def close(agent: str, seen: AgentSeen) -> Step:
    """Return the step that closes an account that an earlier Paddock made. The agent keeps running."""
    reason = f"others could log in to it, with a key in a home that the agent writes to: {', '.join(seen.account_open)}"
    title = f"close the account of {agent} to logins"
    return Step("account.close", title, one_line(reason), CloseAccount(), phase=Phase.AGENT)


def _hint(agent: str, want: AgentWant) -> str:
    both = "change name and uid together, user: {name: NAME, uid: 10001}; `paddock up` gives the files to that account"
    made_for_it = not want.state and want.container is None
    return f"{both}; or `paddock cycle --only {agent}` creates a machine with the new account" if made_for_it else both
