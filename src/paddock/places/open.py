"""Open the place that a file describes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import cast

from paddock.file.models.whole import PlaceSpec
from paddock.places.contract import AnyPlace


def place_for(
    name: str, spec: PlaceSpec, folder: Path, say: Callable[[str], None], *, patient: bool = True
) -> AnyPlace:
    """Return the place that a file describes.

    ``say`` prints progress. ``patient`` waits for steps that only a person can do.
    """
    if spec.proxmox is not None:
        # Files without a node do not load the code for one.
        from paddock.places.proxmox.place import ProxmoxPlace

        # A place is only given observations and actions of its own, so the casts are safe.
        return cast("AnyPlace", ProxmoxPlace(spec.proxmox, folder, say, patient=patient))
    if spec.host is not None:
        from paddock.places.host.place import HostPlace

        return cast("AnyPlace", HostPlace(name, spec.host, folder))
    raise AssertionError("the loader rejects a place without a kind")
