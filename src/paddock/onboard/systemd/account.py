"""The account of an agent: it is created or found, belongs to one agent only, and is closed to logins.

The agent can write all files of its home: a key in ~/.ssh/authorized_keys, programs for a systemd of its own. Whoever
logs in to its account runs programs with its uid and without the confinement of its units. An expired account lets
nobody in, by ssh, su, cron, at or a systemd of the account. Services run as an expired account nevertheless.
"""

from __future__ import annotations

import grp
import os
import pwd
import time

from paddock.onboard.agent import Agent, in_words, settings
from paddock.onboard.files import lines, remove
from paddock.onboard.program.frozen import frozen
from paddock.onboard.program.programs import found, must, run
from paddock.onboard.program.refusal import BUSY, Refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from paddock.onboard.program.serve import Payload

_OF_PADDOCK = "Paddock agent "  # begins the comment of accounts that Paddock made, which only root can change


def have_account(agent: Agent, bundle: dict[str, str], sysusers: str) -> None:
    """Create or find the account of the agent.

    With another uid or gid than the file says, the state would belong to another account.
    """
    user, group = bundle["OWNER"].split(":")
    uid, gid = bundle["USER_UID"], bundle.get("GROUP_GID", "")
    _check_others_accounts(agent, bundle)
    # If a uid or gid is taken, systemd-sysusers would choose another number.
    accounts = {each.pw_name: each.pw_uid for each in pwd.getpwall()}
    groups = {each.gr_name: each.gr_gid for each in grp.getgrall()}
    for what, name, number, known in (("uid", user, uid, accounts), ("gid", group, gid or uid, groups)):
        taken = next((other for other, its in known.items() if str(its) == number), None)
        if taken and name not in known:
            raise Refusal(f"{taken} has the {what} {number} on this machine: give the agent another user:")
    if _user(user) is None or _group(group) is None:
        must(["systemd-sysusers", sysusers])
    for what, name, number, here in (("account", user, uid, _user(user)), ("group", group, gid, _group(group))):
        if here is None:
            raise Refusal(f"there is no {what} {name} on the machine, and the file says user: {{create: false}}")
        if number and here != int(number):
            raise Refusal(f"the {what} {name} has the number {here} here, and the file says {number}")
    # sysusers.conf has another shell: its text is older than this, and a change of it would restart every agent.
    close_account(user)


def _user(name: str) -> int | None:
    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        return None


def _group(name: str) -> int | None:
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError:
        return None


def _check_others_accounts(agent: Agent, bundle: dict[str, str]) -> None:
    """Refuse an account of another agent, which could read and change this agent's memory."""
    for other, root in agent.roots():
        theirs = settings(f"{root}/current")
        if other == agent.id or not theirs.get("OWNER"):
            continue
        for what, at, here, key in (("account", 0, _user, "USER_UID"), ("group", 1, _group, "GROUP_GID")):
            names = [each["OWNER"].split(":")[at] for each in (bundle, theirs)]
            wanted = [each.get(key) or each.get("USER_UID", "") for each in (bundle, theirs)]
            known = [here(name) for name in names]
            # The numbers of the file are used for names that do not exist yet.
            numbers = [str(wanted[each] if known[each] is None else known[each]) for each in (0, 1)]
            if names[0] == names[1] or (numbers[0] and numbers[0] == numbers[1]):
                raise Refusal(
                    f"the {what} {names[0]} is also used by {in_words(other)} on this machine, and each could read and"
                    f" change the other's memory: give {agent.name} an account and a group of its own, user:"
                    " {name: NAME, uid: 10001}; `paddock up` gives its files to that account"
                )


def is_of_paddock(account: str) -> bool:
    """Whether Paddock made an account. Others are a person's, and stay as they are."""
    try:
        return pwd.getpwnam(account).pw_gecos.startswith(_OF_PADDOCK)
    except KeyError:
        return False


def ways_in(account: str) -> list[str]:
    """Return what lets others run programs as the account, beside the agent's units."""
    shell = pwd.getpwnam(account).pw_shell
    shadow = next((line.split(":") for line in lines("/etc/shadow") if line.startswith(f"{account}:")), [])
    expires = shadow[7] if len(shadow) > 7 else ""
    expired = expires.isdecimal() and 1 <= int(expires) < int(time.time() // 86400)
    return [
        *([] if shell.endswith(("/nologin", "/false")) else [f"its shell is {shell or '/bin/sh'}"]),
        *([] if expired else ["it has not expired"]),
        *(["it lingers"] if os.path.exists(f"/var/lib/systemd/linger/{account}") else []),
    ]


def close_account(account: str) -> None:
    """Close an account to logins, and end what a login has started. The agent's units are no part of that."""
    if not is_of_paddock(account) or not ways_in(account):
        return
    if not found("usermod"):
        raise Refusal(f"this machine has no usermod, and the account {account} is open to logins", BUSY)
    nologin = "/usr/sbin/nologin" if os.access("/usr/sbin/nologin", os.X_OK) else "/bin/false"
    must(["usermod", "--expiredate", "1", "--shell", nologin, account])
    remove(f"/var/lib/systemd/linger/{account}")
    if os.path.exists(f"/run/systemd/users/{pwd.getpwnam(account).pw_uid}"):
        run(["loginctl", "terminate-user", account])


def close_account_of(root: str) -> None:
    """Close the account of the current bundle."""
    account = settings(f"{root}/current").get("OWNER", "").partition(":")[0]
    if account:
        close_account(account)


@frozen
class CloseAccount:
    """Close the account of the current bundle to logins, if Paddock made it. The agent keeps running."""

    agent: Agent

    def perform(self, _: Payload) -> None:
        with self.agent.lock():
            close_account_of(self.agent.root)
