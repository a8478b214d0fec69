"""The account an agent runs as: made by ``systemd-sysusers``, or one that must be there."""

from __future__ import annotations

from paddock.spec.models import UserSpec


def sysusers(agent: str, user: UserSpec, home: str) -> str:
    """The entries that make the account; none where it is not Paddock's to make."""
    if not user.create:
        return ""
    group = user.group_name
    gid = user.uid if user.gid is None else user.gid
    return f'g {group} {gid}\nu {user.name} {user.uid}:{group} "Paddock agent {agent}" {home} /bin/bash\n'


def variables(user: UserSpec) -> dict[str, str]:
    """What account.sh needs: whose the state is, and the numbers that the file insists on."""
    insists = {*user.model_fields_set, *(("uid",) if user.create else ())}
    return {
        "OWNER": f"{user.name}:{user.group_name}",
        "USER_UID": str(user.uid) if "uid" in insists else "",
        "GROUP_GID": str(user.gid) if user.gid is not None else "",
    }
