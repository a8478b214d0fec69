"""Machines are recreated, the state stays: tested with a small service instead of an agent."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from levels import slow_proof
from live.node import Node, kill_at_step, wait_for

pytestmark = pytest.mark.live

WEB: dict[str, Any] = {
    "kind": "service",
    "place": "box",
    "packages": ["busybox"],
    "command": ["busybox", "httpd", "-f", "-p", "127.0.0.1:8080", "-h", "/etc"],
    "health": {"http": "http://127.0.0.1:8080/hostname"},
    "state": {"size": "1G"},
    "machine": {"cores": 1, "memory": "512M", "disk": "4G"},
}


class Web:
    """A service, and a file for it."""

    def __init__(self, node: Node, name: str) -> None:
        self.node = node
        self.name = name
        self.agents = {name: json.loads(json.dumps(WEB))}

    @property
    def spec(self) -> dict[str, Any]:
        found: dict[str, Any] = self.agents[self.name]
        return found

    def paddock(self, *words: str, fails: bool = False) -> str:
        path = self.node.write(
            f"{self.name}.yaml", {"project": "home", "places": self.node.file()["places"], "agents": self.agents}
        )
        verb = 2 if words[0] == "template" else 1
        done = self.node.paddock(*words[:verb], "-f", str(path), *words[verb:], fails=fails)
        return done.stderr + done.stdout if fails else done.stdout

    def status(self) -> dict[str, Any]:
        return dict(json.loads(self.paddock("status", "--json"))[0])

    def write_fact(self, fact: str) -> None:
        self.paddock("exec", self.name, "--", "sh", "-c", f"echo {fact} > ~/fact")

    def fact(self) -> str:
        return self.paddock("exec", self.name, "--", "cat", f"/var/lib/paddock/{self.name}/home/fact").strip()

    def remove(self) -> None:
        self.paddock("down")
        for agent in list(self.agents):
            self.paddock("forget", agent, "--name", agent)


@pytest.fixture
def web(node: Node, request: pytest.FixtureRequest) -> Iterator[Web]:
    found = Web(node, f"web{abs(hash(request.node.name)) % 10000}")
    try:
        yield found
    finally:
        found.remove()


def test_state_survives_any_number_of_machines(web: Web) -> None:
    host_keys = "cat /etc/ssh/ssh_host_ed25519_key.pub; ls /etc/ssh/ssh_host_*"
    web.paddock("up")
    web.write_fact("one")
    first = web.node.shell(web.status()["address"], host_keys)
    web.paddock("cycle")

    # Every clone makes its own ssh host key.
    second = web.node.shell(web.status()["address"], host_keys)
    assert first.splitlines()[0] != second.splitlines()[0]
    assert "rsa" not in second

    # `forget` refuses while there is a machine, and without the right name.
    assert "still exists" in web.paddock("forget", web.name, "--name", web.name, fails=True)
    web.paddock("down")
    assert "not the agent's name" in web.paddock("forget", web.name, "--name", "other", fails=True)
    web.paddock("up")

    assert web.fact() == "one"
    assert web.paddock("plan") == f"{web.name}: nothing to do\n"
    assert web.paddock("up") == f"{web.name}: nothing to do, and healthy\n"


def test_a_renamed_agent_keeps_its_machine_and_its_state(web: Web) -> None:
    web.paddock("up")
    web.write_fact("mine")
    before, former, name = web.status(), web.name, f"{web.name}n"
    assert web.paddock("rename", former, name, "--yes") == f"{name}: up and working\n"
    web.agents = {name: {**web.spec, "state": {**web.spec["state"], "path": f"/var/lib/paddock/{former}"}}}
    web.name = name
    assert web.paddock("plan") == f"{name}: nothing to do\n"
    after = web.status()
    assert (after["machine"], after["address"], after["state"]) == (
        before["machine"],
        before["address"],
        before["state"],
    )
    assert web.paddock("exec", name, "--", "sh", "-c", "cat ~/fact").strip() == "mine"
    units = web.node.shell(after["address"], "systemctl list-units --plain --no-legend 'paddock-*'")
    assert f"paddock-home_{name}.main.service" in units
    assert f"paddock-home_{former}." not in units
    web.paddock("cycle")
    assert web.paddock("exec", name, "--", "sh", "-c", "cat ~/fact").strip() == "mine"


def test_half_a_change_of_the_account_is_refused_and_a_whole_one_gets_the_files(web: Web) -> None:
    def owner() -> str:
        return web.node.shell(web.status()["address"], f"stat -c %U:%u /var/lib/paddock/{web.name}/home/fact").strip()

    web.paddock("up")
    web.write_fact("mine")
    web.spec["user"] = {"uid": 10001}
    assert "account service has uid 10000, and the file says 10001" in web.paddock("up", fails=True)
    web.spec["user"] = {"name": "bee", "uid": 10001}
    web.paddock("up")
    assert (web.fact(), owner()) == ("mine", "bee:10001")

    # A new machine has no account yet, so it can have any.
    web.spec["user"] = {"name": "bee", "uid": 10002}
    assert "`paddock cycle --only" in web.paddock("up", fails=True)
    web.paddock("cycle")
    assert (web.fact(), owner()) == ("mine", "bee:10002")


def test_a_machine_is_created_from_the_base_without_a_template(web: Web) -> None:
    tree = web.node.file()
    tree["places"]["box"]["proxmox"]["template"] = "none"
    tree["agents"] = web.agents
    path = str(web.node.write(f"{web.name}-base.yaml", tree))
    planned = web.node.paddock("plan", "-f", path).stdout
    assert "create machine" in planned
    assert "install packages: busybox" in planned
    web.node.paddock("up", "-f", path)
    assert web.node.paddock("plan", "-f", path).stdout == f"{web.name}: nothing to do\n"


@slow_proof
def test_the_state_volume_grows_with_its_filesystem(web: Web) -> None:
    web.paddock("up")
    web.write_fact("small")
    web.spec["state"]["size"] = "2G"
    assert "grow the state volume from 1G to 2G" in web.paddock("plan")
    web.paddock("up")
    assert web.fact() == "small"
    assert web.status()["used"].endswith("of 1.9G")
    web.spec["state"]["size"] = "1G"
    assert "volumes cannot shrink" in web.paddock("plan", fails=True)
    web.spec["state"]["size"] = "2G"


def test_machine_settings_change_live_or_with_a_restart(web: Web) -> None:
    web.paddock("up")
    address = web.status()["address"]
    started = "systemctl show -p UserspaceTimestampMonotonic -p UserspaceTimestamp"
    before = web.node.shell(address, started)
    web.spec["machine"].update(cores=2, memory="600M", tags=["lab"])
    assert "restart" not in web.paddock("plan")
    web.paddock("up")
    assert web.node.shell(address, started) == before
    web.spec["machine"]["dns"] = {"search": "paddock.test"}
    assert "restart machine" in web.paddock("plan")
    web.paddock("up")
    assert web.node.shell(web.status()["address"], started) != before
    assert web.paddock("plan") == f"{web.name}: nothing to do\n"


def test_two_agents_share_one_pet(web: Web) -> None:
    web.spec["state"]["pet"] = 500
    second = f"{web.name}b"
    web.agents[second] = json.loads(json.dumps(web.spec))
    web.paddock("up", "--jobs", "2")
    rows = json.loads(web.paddock("status", "--json"))
    states = {row["agent"]: row["state"] for row in rows if row["agent"] in web.agents}
    assert sorted(states.values()) == ["local-lvm:vm-500-disk-1", "local-lvm:vm-500-disk-2"]
    web.paddock("down", "--only", second)
    assert web.paddock("plan", "--only", web.name) == f"{web.name}: nothing to do\n"


@slow_proof
def test_templates_are_refreshed_and_pruned(web: Web) -> None:
    def templates() -> list[dict[str, Any]]:
        return list(json.loads(web.paddock("template", "list", "--json")))

    def epochs(of: list[dict[str, Any]]) -> list[int]:
        return [row["epoch"] for row in of if row["template"] == own]

    web.paddock("up")
    before = templates()  # other tests may have built some, also with other contents and this label
    web.paddock("template", "refresh")
    [own] = [row["template"] for row in templates() if row["vmid"] not in {each["vmid"] for each in before}]
    used = max(epochs(before))
    assert "`paddock cycle` recreates it" in web.paddock("plan")
    web.paddock("template", "refresh")
    assert epochs(templates()) == [*epochs(before), used + 1, used + 2]
    web.paddock("template", "prune", "--yes")
    assert epochs(templates()) == [used, used + 1, used + 2], "one is in use, two are the newest"
    web.paddock("cycle")
    web.paddock("template", "prune", "--yes")
    assert epochs(templates()) == [used + 1, used + 2]


@slow_proof
def test_the_bill_of_a_machine_has_the_packages_of_its_template(web: Web) -> None:
    web.paddock("up")
    (template,) = json.loads(web.paddock("sbom", web.name))["components"]
    assert (template["name"], template["version"]) == ("debian", "12")
    assert template["description"] == "packages of the template that the machine was made from"
    packages = {each["name"]: each for each in template["components"]}
    version = web.node.shell(web.status()["address"], "dpkg-query -W -f '${Version}' busybox")
    assert packages["busybox"]["version"] == version.strip()
    assert "upstream=glibc" in packages["libc6"]["purl"]
    web.paddock("down")
    assert json.loads(web.paddock("sbom", web.name))["components"] == []


@slow_proof
def test_a_second_run_on_the_same_agent_names_the_first_process(web: Web) -> None:
    web.paddock("up")
    web.paddock("down")
    path = str(web.node.stage.folder / f"{web.name}.yaml")
    first = web.node.start("up", "-f", path)
    locks = web.node.journals.parent / "locks"
    wait_for(lambda: f"process {first.pid}" in [lock.read_text() for lock in locks.glob("agent-*.lock")])
    told = web.paddock("up", fails=True)
    assert f"another run is working on it (process {first.pid})" in told
    assert first.wait(60) == 0


def test_doctor_reports_what_the_token_may_do(web: Web) -> None:
    report = web.paddock("doctor")
    assert "✓ reached: https://" in report
    assert "✗" not in report


@slow_proof
def test_up_resumes_after_a_kill_while_building_a_template(web: Web) -> None:
    web.spec["packages"] = ["busybox", "tree"]  # no other test has a template with these packages
    kill_at_step(web.node, "template.install", "up", "-f", _written(web))
    web.paddock("up")
    assert web.paddock("plan") == f"{web.name}: nothing to do\n"


@slow_proof
@pytest.mark.parametrize(
    ("step", "package"),  # another package makes another template
    [
        ("pet.create", "bc"),
        ("template.create", "dc"),
        ("template.start", "ed"),
        ("template.reach", "less"),
        ("template.seal", "time"),
        ("cattle.clone", "file"),
        ("cattle.reach", "jq"),
    ],
)
def test_the_first_up_resumes_after_a_kill_at_every_step(web: Web, step: str, package: str) -> None:
    web.spec["packages"] = ["busybox", package]
    kill_at_step(web.node, step, "up", "-f", _written(web))
    web.paddock("up")
    assert web.paddock("plan") == f"{web.name}: nothing to do\n"


def _written(web: Web) -> str:
    tree = {"project": "home", "places": web.node.file()["places"], "agents": web.agents}
    return str(web.node.write(f"{web.name}.yaml", tree))
