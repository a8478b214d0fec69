"""What `down` does to the images of a container, in the order in which an engine allows it."""

from __future__ import annotations

from pathlib import Path

import pytest

from paddock.onboard.agent import Agent
from paddock.onboard.engine import images
from paddock.onboard.systemd import units
from paddock.onboard.systemd.units import Remove
from performed import performed


def test_an_archived_image_is_removed_after_the_container_that_uses_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, done = tmp_path / "home_bee", list[str]()
    (root / "red").mkdir(parents=True)
    (root / "red/bundle.env").write_text('IMAGE="localhost/paddock/archive:1234"\n')
    agent = Agent("system", "home_bee", (), str(root), str(tmp_path / "store"), str(tmp_path / "link"), str(tmp_path))

    def drop_units(_: Remove) -> None:
        (root / "red/bundle.env").unlink()
        done.append("units")

    monkeypatch.setattr(Remove, "_drop_units", drop_units)
    monkeypatch.setattr(units, "remove_containers", lambda *_: done.append("container"))
    monkeypatch.setattr(images, "drop_images", lambda *given: done.extend(given[2]))
    performed(Remove(agent, "docker"))
    assert done == ["units", "container", "localhost/paddock/archive:1234"]
