"""The keys of a place with Incus."""

from __future__ import annotations

from pydantic import Field

from paddock.file.models.fields import Model, Url


class Keys(Model):
    """containers of Incus"""

    remote: Url = Field(description="URL of its API")
