"""Kinds of isolation that a runtime may provide. Each can be checked in /proc."""

from __future__ import annotations

from enum import StrEnum


class Isolation(StrEnum):
    ACCOUNT = "account"  # the agent has an account that nobody else uses
    CAPABILITIES = "capabilities"  # the agent has no capabilities and cannot gain any
    PRIVILEGES = "privileges"  # setuid programs do not work
    SYSTEM_CALLS = "system_calls"  # a filter limits them
    PROC = "proc"  # the agent does not see processes of others
    SYS = "sys"  # the agent cannot change kernel settings
