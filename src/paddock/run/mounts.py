"""The directories of the host that an agent sees too: there, mounted, and its own."""

from __future__ import annotations

from paddock.errors import NeedsPerson
from paddock.guests import Guest, expect
from paddock.runtimes import script
from paddock.spec.models import AgentSpec


def check(guest: Guest, agent: AgentSpec, owner: str, *, made_for_it: bool) -> None:
    """See them on the machine with the agent's ids; ``owner`` has these as the host sees them.

    A machine that was made for the agent has them where the agent sees them, each a mount of its own.
    """
    ids = [str(agent.user.uid), str(agent.user.gid or agent.user.uid)]
    paths = {(mount.path if made_for_it else mount.host): mount for mount in agent.mounts}
    argv = script(("paddock.runtimes", "mounts.sh"), arguments=[*ids, *paths])
    for line in expect(guest, "looking at the mounts", argv).splitlines():
        kind, found, writable, path = line.split(maxsplit=3)
        mount = paths[path]
        if kind == "missing":
            raise NeedsPerson(f"there is no directory {path} on {guest.name}", hint=f"make it: mkdir {path}")
        if made_for_it and kind != "mounted":
            raise NeedsPerson(
                f"{mount.host} is in the configuration of {guest.name}, but nothing is mounted at {path} there",
                hint="restart the machine, and look at its console on the node",
            )
        if not mount.read_only and writable == "no":
            seen = f", where it shows as uid {found}" if made_for_it else f"; it belongs to uid {found}"
            raise NeedsPerson(
                f"{agent.user.name} (uid {ids[0]}) may not write to {path} on {guest.name}{seen}",
                hint=f"its directory on the host has to be the agent's: chown {owner} {mount.host}",
            )
