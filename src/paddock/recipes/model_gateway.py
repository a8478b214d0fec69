"""A model gateway: an agent that serves models to other agents of the file."""

from __future__ import annotations

from paddock.frozen import frozen


@frozen
class Offer:
    """The models that an agent serves to others at one of its named ports."""

    port: str
    path: str
    key: str  # name of the secret that gives access


@frozen
class ModelServer:
    """A model gateway as one of its users reaches it."""

    name: str
    url: str
    key: str = "LITELLM_API_KEY"  # name of the secret that the user sends
