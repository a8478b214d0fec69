"""The keys of agents of kind ``litellm``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final, Literal

from pydantic import Field

from paddock.recipes.packaged import PackagedSpec
from paddock.spec.fields import Port
from paddock.spec.tree import Location

MASTER_KEY: Final = "LITELLM_MASTER_KEY"  # LiteLLM's own name for the key with all rights


class LitellmSpec(PackagedSpec):
    """The LiteLLM proxy, a model gateway: it serves many models at one address."""

    models_port: ClassVar[str | None] = "proxy"
    without_effect: ClassVar[Mapping[str, str]] = {
        "documents": "the proxy reads no documents; write what it should know under settings",
        "working_directory": "the proxy works in the agent's home and has no other directory",
    }

    kind: Literal["litellm"] = Field(description="litellm")
    port: Port = Field(4000, description="port of the proxy")

    def ports(self) -> dict[str, int]:
        return {"proxy": self.port}

    def port_key(self, port: str) -> Location:
        return ("port",)
