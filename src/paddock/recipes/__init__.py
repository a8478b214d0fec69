"""What kinds of agents know about themselves; neither where they run nor what supervises them."""

from __future__ import annotations

from typing import Any

from paddock.recipes.workload import Recipe
from paddock.spec.models import Kind


def recipe_for(kind: Kind) -> Recipe[Any]:
    """Return the recipe of a kind of agent."""
    match kind:
        case Kind.HERMES:
            from paddock.recipes.hermes.recipe import Hermes

            return Hermes()
        case Kind.LITELLM:
            from paddock.recipes.litellm.recipe import Litellm

            return Litellm()
        case Kind.SERVICE:
            from paddock.recipes.service import Service

            return Service()
