"""The health check of a recipe reaches the health command of the agent's container."""

from __future__ import annotations

from pathlib import Path

from paddock.core.open import deployments
from paddock.core.resolve import locate, resolve
from paddock.kinds import load
from paddock.show.reporter import Reporter

FILE = """\
project: home
places: {here: {host: {}}}
agents:
  web:
    {kind: service, place: here, runtime: docker, command: [web], health: {port: 5432}, container: {base: "debian:12"}}
"""


def test_the_bundle_of_a_container_asks_for_the_health_that_the_recipe_declares(tmp_path: Path) -> None:
    (tmp_path / "paddock.yaml").write_text(FILE)
    with deployments(load(tmp_path / "paddock.yaml"), [], Reporter()) as [agent]:
        files = resolve(locate(agent)).bundle.files
    assert files["health"].content.endswith('loopback.py" 5432\n')
    assert "loopback.py" in files
