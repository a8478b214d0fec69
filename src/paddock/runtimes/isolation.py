"""What a runtime may keep an agent from, each to be seen in what the kernel says of the agent's processes."""

from __future__ import annotations

from enum import StrEnum


class Isolation(StrEnum):
    ACCOUNT = "account"  # nobody else runs anything as the agent's user
    CAPABILITIES = "capabilities"  # it has none and can get none
    PRIVILEGES = "privileges"  # no program gives it more than it has
    SYSTEM_CALLS = "system_calls"
    PROC = "proc"  # it does not see processes of others
    SYS = "sys"  # it cannot change what the kernel lets be tuned
