"""One agent gets its models from another: by which URL, with which key, and in which order."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from paddock.base.errors import Refused
from paddock.core import converge
from paddock.core.deployment import Deployment
from paddock.core.open import deployments
from paddock.core.parallel import each
from paddock.core.resolve import locate, resolve
from paddock.kinds import load
from paddock.places.contract import Machine
from paddock.places.host.place import HostPlace, HostSeen
from paddock.show.reporter import Reporter

FILE = """\
project: home
places:
  here: {{host: {{}}}}
  there: {{host: {{address: {there}}}}}
agents:
  hermes:
    kind: hermes
    version: 0.19.0
    place: here
    runtime: process
    gateway: door
    settings: {{model: {{default: gpt-5-mini}}}}
  door:
    kind: litellm
    version: 1.106.2
    place: {place}
    runtime: {runtime}
    secrets: {{LITELLM_MASTER_KEY: {{env: MASTER}}}}
    settings: {{model_list: [{{model_name: gpt-5-mini, litellm_params: {{model: openai/gpt-5-mini}}}}]}}
    expose: {expose}
"""


@contextmanager
def file(tmp_path: Path, *only: str, **values: str) -> Iterator[list[Deployment]]:
    given = {"there": "192.0.2.9", "place": "here", "runtime": "process", "expose": "{}"}
    (tmp_path / "paddock.yaml").write_text(FILE.format(**{**given, **values}))
    with deployments(load(tmp_path / "paddock.yaml"), list(only), Reporter()) as found:
        yield found


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MASTER", "sk-of-the-proxy")


def settings(agent: Deployment) -> dict[str, Any]:
    return dict(resolve(locate(agent)).configured.model_dump()["settings"])


def test_beside_it_loopback_is_where_it_is(tmp_path: Path) -> None:
    with file(tmp_path) as (hermes, _):
        assert settings(hermes) == {
            "model": {"provider": "custom:door", "default": "gpt-5-mini"},
            "providers": {
                "door": {
                    "base_url": "http://127.0.0.1:4000/v1",
                    "key_env": "LITELLM_API_KEY",
                    "default_model": "gpt-5-mini",
                }
            },
        }
        agent = resolve(locate(hermes))
        assert agent.known_secrets.environment["LITELLM_API_KEY"].reveal() == "sk-of-the-proxy"
        assert "base_url: http://127.0.0.1:4000/v1" in agent.bundle.files["hermes/config.yaml"].content


def test_it_is_known_even_if_only_the_other_is_asked_for(tmp_path: Path) -> None:
    with file(tmp_path, "hermes") as found:
        assert [agent.name for agent in found] == ["hermes"]
        secrets = resolve(locate(found[0])).known_secrets
        assert secrets.environment["LITELLM_API_KEY"].reveal() == "sk-of-the-proxy"


@pytest.mark.parametrize(
    ("there", "expose", "url"),
    [
        ("192.0.2.9", "{proxy: {}}", "http://192.0.2.9:4000/v1"),
        ("box.lan", "{proxy: {}}", "http://box.lan:4000/v1"),
        ("box.lan", "{proxy: {address: 192.0.2.77}}", "http://192.0.2.77:4000/v1"),
        ("box.lan", "{proxy: {address: '2001:db8::7'}}", "http://[2001:db8::7]:4000/v1"),
    ],
)
def test_on_another_machine_it_is_where_that_one_is(tmp_path: Path, there: str, expose: str, url: str) -> None:
    with file(tmp_path, there=there, place="there", runtime="systemd", expose=expose) as (hermes, _):
        assert settings(hermes)["providers"]["door"]["base_url"] == url


def test_a_gateway_without_an_address_is_a_refusal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = HostPlace.machine

    def machine(self: HostPlace, want: Any, node: HostSeen) -> Machine:
        found = seen(self, want, node)
        return replace(found, address=None) if want.agent == "door" else found

    monkeypatch.setattr(HostPlace, "machine", machine)
    with file(tmp_path, place="there", runtime="systemd", expose="{proxy: {}}") as (hermes, _):
        plan = converge.plan(hermes)
        assert [refusal.reason for refusal in plan.refusals] == [
            "door, the model gateway of hermes, has no address yet"
        ]
        with pytest.raises(Refused, match="has no address yet"):
            converge.up(hermes)


def test_gateways_go_first(tmp_path: Path) -> None:
    begun: list[str] = []

    def verb(agent: Deployment) -> str:
        begun.append(agent.name)
        return agent.name

    with file(tmp_path) as agents:
        assert each(agents, 4, verb) == ["door", "hermes"]
    assert begun == ["door", "hermes"]
