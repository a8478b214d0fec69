"""Open the place that a file describes."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import cast

from paddock.file.models.place import PLACES
from paddock.file.models.whole import PlaceSpec
from paddock.places.contract import AnyPlace


def place_for(
    name: str, spec: PlaceSpec, folder: Path, say: Callable[[str], None], *, patient: bool = True
) -> AnyPlace:
    """Return the place that a file describes.

    ``say`` prints progress. ``patient`` waits for steps that only a person can do.
    """
    # Files without a node do not load the code for one.
    module = import_module(f"{PLACES[spec.key]}.place")
    # A place is only given observations and actions of its own, so the cast is safe.
    return cast("AnyPlace", module.open_place(name, getattr(spec, spec.key), folder, say, patient=patient))
