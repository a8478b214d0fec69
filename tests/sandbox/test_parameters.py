"""How parameters reach the API: repeated keys, lists, and the encoding of forms."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from pvebox.api.routes import api as table
from pvebox.server.http import HttpApi
from sandbox.inprocess import Api

TOKEN = "root@pam!sandbox"


class Raw:
    """Sends bodies and queries exactly as given."""

    def __init__(self, directory: Path) -> None:
        self.api = Api(directory)
        self.api.create(500)
        self._app = HttpApi(self.api.cluster, delay_401=0).app()

    def ask(self, method: str, path: str, body: str | None = None, type_: str | None = None) -> httpx.Response:
        secret = self.api.cluster.access.tokens[TOKEN].secret
        headers = {"Authorization": f"PVEAPIToken={TOKEN}={secret}"}
        if body is not None:
            headers["Content-Type"] = type_ or "application/x-www-form-urlencoded"
        return asyncio.run(self._send(method, path, headers, body))

    async def _send(self, method: str, path: str, headers: dict[str, str], body: str | None) -> httpx.Response:
        transport = httpx.ASGITransport(app=self._app)
        async with httpx.AsyncClient(transport=transport) as client:
            return await client.request(method, f"https://sandbox/api2/json{path}", headers=headers, content=body)

    def config(self) -> dict[str, Any]:
        data: dict[str, Any] = self.ask("GET", "/nodes/pve/lxc/500/config").json()["data"]
        return data


@pytest.fixture
def raw(tmp_path: Path) -> Raw:
    return Raw(tmp_path / "state")


CONFIG = "/nodes/pve/lxc/500/config"


@pytest.mark.parametrize(
    ("body", "type_"), [("tags=b&tags=a", None), ('{"tags": ["b", "a"]}', "application/json"), ("tags=b%3Ba", None)]
)
def test_a_list_can_be_given_as_repeated_keys(raw: Raw, body: str, type_: str | None) -> None:
    assert raw.ask("PUT", CONFIG, body, type_).status_code == 200
    assert raw.config()["tags"] == "a;b"


@pytest.mark.parametrize(
    ("body", "type_"), [("memory=600&memory=700", None), ('{"memory": [600, 700]}', "application/json")]
)
def test_a_single_value_can_not_be_repeated_in_a_body(raw: Raw, body: str, type_: str | None) -> None:
    answer = raw.ask("PUT", CONFIG, body, type_)
    assert answer.status_code == 400
    assert answer.json()["errors"] == {"memory": "type check ('integer') failed - got ARRAY"}
    assert raw.config()["memory"] == 512


def test_a_single_value_can_not_be_repeated_in_a_query(raw: Raw) -> None:
    answer = raw.ask("GET", "/nodes/pve/tasks?typefilter=vzstart&typefilter=vzstop")
    assert answer.json()["errors"] == {"typefilter": "type check ('string') failed - got ARRAY"}
    assert raw.ask("GET", "/nodes/pve/tasks?statusfilter=ok&statusfilter=error").status_code == 200


def test_a_repeated_parameter_of_the_path_conflicts_with_it(raw: Raw) -> None:
    errors = raw.ask("DELETE", "/nodes/pve/lxc/500?vmid=500&vmid=500").json()["errors"]
    assert errors == {"vmid": "duplicate parameter (already defined in URI) with conflicting values!"}


def test_an_equals_sign_that_is_not_encoded_ends_a_value(raw: Raw) -> None:
    assert raw.ask("PUT", CONFIG, "description=a=b&hostname=x").status_code == 200
    assert raw.config()["description"] == "a\n"


def test_a_semicolon_that_is_not_encoded_separates_parameters(raw: Raw) -> None:
    assert raw.ask("PUT", CONFIG, "description=a;hostname=other").status_code == 200
    assert raw.config()["hostname"] == "other"


def test_the_query_wins_over_the_body(raw: Raw) -> None:
    assert raw.ask("PUT", f"{CONFIG}?memory=700", "memory=600").status_code == 200
    assert raw.config()["memory"] == 700


def test_no_method_breaks_on_a_repeated_parameter(raw: Raw, capsys: pytest.CaptureFixture[str]) -> None:
    values = {"node": "pve", "vmid": "500", "storage": "local", "snapname": "one"}
    for method in table:
        path = "/".join(values.get(part.strip("{}*"), "x") if "{" in part else part for part in method.path.split("/"))
        for key in method.properties:
            pairs = f"{key}=1&{key}=2"
            if method.verb in ("GET", "DELETE"):
                answer = raw.ask(method.verb, f"{path}?{pairs}")
            else:
                answer = raw.ask(method.verb, path, pairs)
            assert answer.headers["x-pvebox-reason"] != "internal error", (method.verb, path, key, capsys.readouterr())
