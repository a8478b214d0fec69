"""What the API answers when it does not do what was asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

# What a mistake of the sandbox's own looks like from outside; its story goes to stderr.
INTERNAL: Final = "internal error"


class ApiError(Exception):
    """An answer other than success: a status, Proxmox's own words, and errors per parameter."""

    status = 500

    def __init__(self, message: str, errors: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.message = message if message.endswith("\n") else message + "\n"
        self.errors = dict(errors or {})

    @property
    def reason(self) -> str:
        """The first line: Proxmox puts it in the status line."""
        return self.message.split("\n", 1)[0]

    @property
    def text(self) -> str:
        """The message without its line end, as a task's exit status shows it."""
        return self.message.rstrip("\n")


class OperationError(ApiError):
    """Something Proxmox dies of: status 500, or the error of a task."""


class ParameterError(ApiError):
    """A request that does not fit its schema."""

    status = 400

    def __init__(self, errors: Mapping[str, str]) -> None:
        super().__init__("Parameter verification failed.", errors)


class PrivilegeError(ApiError):
    """A missing privilege."""

    status = 403

    def __init__(self, detail: str | None = None) -> None:
        super().__init__("Permission check failed" + (f" ({detail})" if detail else ""))


class NoSuchMethodError(ApiError):
    """A method or path that the API does not have."""

    status = 501


class CredentialsError(ApiError):
    """Credentials that are missing or wrong. Proxmox sends no body with it."""

    status = 401


class AbortedError(Exception):
    """Raised inside a task's work when somebody stopped the task."""


class NodeCrashError(BaseException):
    """Raised inside a task's work when its node goes down: nothing gets tidied up."""


class SandboxError(Exception):
    """A sentence for the person at the terminal, and what to do about it."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
