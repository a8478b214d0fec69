"""The account that an agent runs as: created by ``systemd-sysusers``, or an existing one."""

from __future__ import annotations

from paddock.spec.models import UserSpec


def sysusers(agent: str, user: UserSpec, home: str) -> str:
    """Return the entries that create the account; none if the file names an existing one."""
    if not user.create:
        return ""
    group = user.group_name
    gid = user.uid if user.gid is None else user.gid
    return f'g {group} {gid}\nu {user.name} {user.uid}:{group} "Paddock agent {agent}" {home} /bin/bash\n'


def variables(user: UserSpec) -> dict[str, str]:
    """Return the variables of account.sh: the owner of the state, and the ids that the file requires."""
    required = {*user.model_fields_set, *(("uid",) if user.create else ())}
    return {
        "OWNER": f"{user.name}:{user.group_name}",
        "USER_UID": str(user.uid) if "uid" in required else "",
        "GROUP_GID": str(user.gid) if user.gid is not None else "",
    }
