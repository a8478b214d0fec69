"""The key ``notify``: who hears of failures."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from paddock.spec.fields import Model
from paddock.spec.secrets import Source


class NotifySpec(Model):
    """Who hears of failed and overdue backups and of failed drills: exactly one of these."""

    command: list[str] | None = Field(
        None,
        min_length=1,
        description="a command that gets one JSON object on its input, run without a shell; a path starts at the file",
    )
    url: Source | None = Field(
        None, description="source of a URL that gets the same JSON with POST; a source, because such URLs are secret"
    )

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        if (self.command is None) == (self.url is None):
            raise ValueError("needs exactly one of command and url")
        return self
