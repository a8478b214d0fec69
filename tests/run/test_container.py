"""An agent with another image than that of its file, for a rollback."""

from __future__ import annotations

from pathlib import Path

import pytest

from paddock.recipes import load
from paddock.run.container import with_image
from paddock.run.deployment import deployments
from paddock.run.reporter import Reporter
from paddock.runtimes.engine.runtime import Engine

FILE = """\
project: home
places: {{here: {{host: {{}}}}}}
agents:
  hermes: {{kind: hermes, version: 0.19.0, place: here, runtime: {engine}, container: {container}}}
"""
KEPT = "localhost/paddock/kept:4f8a-2026-08-01T10.00.00Z"


@pytest.mark.parametrize("engine", ["docker", "podman"])
@pytest.mark.parametrize(
    ("container", "brings_code"),
    [("{image: nousresearch/hermes-agent}", True), ("{base: 'debian:12'}", False)],
)
def test_a_kept_image_takes_the_place_of_the_one_in_the_file(
    tmp_path: Path, engine: str, container: str, brings_code: bool
) -> None:
    file = tmp_path / "paddock.yaml"
    file.write_text(FILE.format(engine=engine, container=container))
    with deployments(load(file), [], Reporter()) as (agent,):
        other = with_image(agent, KEPT)
    found = Engine(other.id, other.spec, tmp_path).container
    assert (found.image.name, found.image.archive, found.brings_code) == (KEPT, None, brings_code)
    assert agent.spec.container != other.spec.container
