"""Errors: the API's error answers, and errors for the person who runs the sandbox."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

# The answer for a bug in the sandbox itself. The traceback goes to stderr.
INTERNAL: Final = "internal error"


class ApiError(Exception):
    """An error answer of the API: the status, Proxmox's message, and errors by parameter."""

    status = 500

    def __init__(self, message: str, errors: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.message = message if message.endswith("\n") else message + "\n"
        self.errors = dict(errors or {})

    @property
    def reason(self) -> str:
        """The first line of the message, which Proxmox sends as the reason phrase."""
        return self.message.split("\n", 1)[0]

    @property
    def text(self) -> str:
        """The message without the final newline."""
        return self.message.rstrip("\n")

    @property
    def printed(self) -> str:
        """The message as a task prints it. Perl prints the status code and the errors of Proxmox's own exceptions."""
        if self.status == 500:
            return self.message.removesuffix("\n")
        listed = "".join(f"{key}: {said}\n" for key, said in sorted(self.errors.items()))
        return f"{self.status} {self.message}{listed}".removesuffix("\n")


class OperationError(ApiError):
    """The operation failed: status 500, or the exit status of a task."""


class ParameterError(ApiError):
    """The parameters do not match the schema of the method."""

    status = 400

    def __init__(self, errors: Mapping[str, str]) -> None:
        super().__init__("Parameter verification failed.", errors)


class PrivilegeError(ApiError):
    """The caller lacks a privilege."""

    status = 403

    def __init__(self, detail: str | None = None) -> None:
        super().__init__("Permission check failed" + (f" ({detail})" if detail else ""))


class NoSuchMethodError(ApiError):
    """The API does not have this method or path."""

    status = 501


class CredentialsError(ApiError):
    """The credentials are missing or wrong. Proxmox sends this answer without a body."""

    status = 401


class UnreachableError(ApiError):
    """The node of the request is offline. Proxmox sends this answer without a body."""

    status = 595

    def __init__(self) -> None:
        super().__init__("No route to host")


class LoginError(ApiError):
    """A login failed. Unlike other answers about credentials, this one has a body."""

    status = 401

    def __init__(self) -> None:
        super().__init__("authentication failure")


class AbortedError(Exception):
    """Raised inside a task after a client stopped the task."""


class NodeCrashError(BaseException):
    """Raised inside a task when its node crashes. The task then cleans nothing up."""


class SandboxError(Exception):
    """An error message for the person who runs the sandbox, with a hint."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
