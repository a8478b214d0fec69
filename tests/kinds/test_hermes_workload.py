"""The keys of kind hermes become processes, files and variables."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from paddock.kinds.hermes import managed
from paddock.kinds.hermes.recipe import Hermes
from paddock.kinds.hermes.spec import HermesSpec, Managed
from paddock.kinds.workload import Keep, Paths, Process, Workload
from paddock.onboard.hermes import launch

PATHS = Paths(code="/code", etc="/etc/x", state="/state", home="/state/home", state_link="/state")


def workload(**more: Any) -> Workload:
    agent = HermesSpec.model_validate({"kind": "hermes", "version": "0.19.0", "place": "home", **more})
    return Hermes().workload(agent, PATHS, "/code/tree")


def file(found: Workload, path: str) -> str:
    return next(each.content for each in found.files if each.path == path)


def config(found: Workload) -> dict[str, Any]:
    return dict(YAML(typ="safe").load(file(found, "hermes/config.yaml")))


def messaging(found: Workload) -> Process:
    return next(process for process in found.processes if process.name == "gateway")


@pytest.mark.parametrize(
    ("code", "config_version", "tells_by_option"),
    [
        ({"version": "0.17.0"}, 30, False),
        ({"version": "0.18.0"}, 32, False),
        ({"version": "0.18.2"}, 33, False),
        ({"version": "0.19.0"}, 33, True),
        ({"version": "0.20.1"}, 33, True),
        ({"version": None, "package": "dist/hermes_agent-0.18.2+own.1-py3-none-any.whl"}, 33, False),
        ({"version": None, "package": "../sources"}, 33, True),
    ],
)
def test_each_version_gets_the_options_it_knows(
    code: dict[str, Any], config_version: int, tells_by_option: bool
) -> None:
    found = workload(**code)
    process = messaging(found)
    assert config(found)["_config_version"] == config_version
    assert ("--external-supervisor" in process.argv) is tells_by_option
    assert ("XPC_SERVICE_NAME" in process.environment) is not tells_by_option


def test_the_allowed_users_of_messengers_are_pinned() -> None:
    talk = {"telegram": {"allow": [4242, 17], "endpoint": "http://192.0.2.5:8081/"}, "discord": {"allow_all": True}}
    found = workload(connectors=talk)
    pinned = file(found, "hermes/.env")
    for line in (
        "TELEGRAM_ALLOWED_USERS='4242,17'",
        "TELEGRAM_ALLOW_ALL_USERS='false'",
        "DISCORD_ALLOW_ALL_USERS='true'",
        "GATEWAY_ALLOW_ALL_USERS='false'",
        "GATEWAY_ALLOWED_USERS=''",
    ):
        assert line in pinned.splitlines()
    assert config(found)["telegram"] == {"extra": {"base_url": "http://192.0.2.5:8081/bot"}}
    assert config(found)["unauthorized_dm_behavior"] == "ignore"


def test_only_users_in_the_file_may_talk_to_the_agent() -> None:
    locked = {each.path: each.content for each in workload(connectors={"telegram": {"allow": [1]}}).state_files}
    assert locked[".hermes/pairing/telegram-approved.json"] == "{}\n"
    assert locked[".hermes/platforms/pairing/telegram-approved.json"] == "{}\n"


def test_the_variables_of_the_api_server_are_set() -> None:
    api = {"port": 9000, "cors_origins": ["http://a.example", "http://b.example"], "model_name": "our-agent"}
    environment = messaging(workload(connectors={"api_server": api})).environment
    assert environment["API_SERVER_PORT"] == "9000"
    assert environment["API_SERVER_CORS_ORIGINS"] == "http://a.example,http://b.example"
    assert environment["API_SERVER_MODEL_NAME"] == "our-agent"


def test_mcp_servers_become_settings_of_hermes() -> None:
    servers = {
        "files": {"command": "npx", "args": ["-y", "server"], "env": {"KEY": "${KEY}"}, "timeout": "2m"},
        "far": {"url": "http://192.0.2.7/mcp", "headers": {"X": "${KEY}"}, "enabled": False},
    }
    assert config(workload(mcp_servers=servers, secrets={"KEY": {"env": "K"}}))["mcp_servers"] == {
        "files": {
            "enabled": True,
            "command": "npx",
            "args": ["-y", "server"],
            "env": {"KEY": "${KEY}"},
            "timeout": 120,
        },
        "far": {"enabled": False, "url": "http://192.0.2.7/mcp", "headers": {"X": "${KEY}"}},
    }


def test_each_document_is_where_hermes_reads_it() -> None:
    names = ("SOUL.md", "USER.md", "MEMORY.md", "AGENTS.md", "notes.md", ".local/x.md", ".hermes/memories/more.md")
    found = workload(documents=dict.fromkeys(names, "a"), working_directory="desk")
    documents = {each.path: each.keep for each in found.state_files if each.content == "a"}
    assert documents == {
        ".hermes/SOUL.md": Keep.LOCKED,
        ".hermes/memories/USER.md": Keep.SEEDED,
        ".hermes/memories/MEMORY.md": Keep.SEEDED,
        "desk/AGENTS.md": Keep.PLANTED,
        "desk/notes.md": Keep.PLANTED,
        ".local/x.md": Keep.PLANTED,
        ".hermes/memories/more.md": Keep.SEEDED,
    }


@pytest.mark.parametrize(
    ("terminal", "cwd"),
    [
        ({}, "/state/home/desk"),
        ({"terminal": None}, "/state/home/desk"),
        ({"terminal": {"timeout": 180}}, "/state/home/desk"),
        ({"terminal": {"cwd": "."}}, "/state/home/desk"),
        ({"terminal": {"backend": "local", "cwd": "auto"}}, "/state/home/desk"),
        ({"terminal": {"cwd": "/srv/work"}}, "/srv/work"),
        ({"terminal": {"backend": "ssh", "cwd": "."}}, "."),
    ],
)
def test_commands_run_in_the_working_directory_unless_the_settings_have_a_path(
    terminal: dict[str, Any], cwd: str
) -> None:
    found = workload(settings=terminal, working_directory="desk")
    assert config(found)["terminal"]["cwd"] == cwd
    assert messaging(found).writable == ()


def test_the_working_directory_may_be_outside_of_the_home() -> None:
    found = workload(documents={"a.md": "a"}, working_directory="/srv/work")
    assert "/srv/work/a.md" in [each.path for each in found.state_files]
    assert messaging(found).writable == ("/srv/work",)


def test_oauth_credentials_become_a_secret_file() -> None:
    (auth,) = workload(auth={"from": {"env": "AUTH"}, "overwrite": True}).secret_files
    assert (auth.path, auth.source.env, auth.overwrite) == (".hermes/auth.json", "AUTH", True)


def test_the_dashboard_is_a_process_on_loopback() -> None:
    dashboard = workload(dashboard={"port": 9200}).processes[1]
    assert dashboard.name == "dashboard"
    assert dashboard.argv[2:] == ("dashboard", "--host", "127.0.0.1", "--port", "9200", "--skip-build", "--no-open")


IMAGE = {"runtime": "docker", "container": {"image": "nousresearch/hermes-agent", "volumes": ["/a:/b:ro", "/c:/d"]}}


def test_an_image_gets_the_dashboard_by_its_variables() -> None:
    found = workload(
        **IMAGE, version=None, dashboard={"port": 9200}, expose={"dashboard": {"address": "192.0.2.3"}}
    ).image
    assert found is not None
    assert {name: value for name, value in found.environment.items() if name.startswith("HERMES_DASHBOARD")} == {
        "HERMES_DASHBOARD": "1",
        "HERMES_DASHBOARD_HOST": "192.0.2.3",
        "HERMES_DASHBOARD_PORT": "9200",
    }
    without = workload(**IMAGE, version=None).image
    assert without is not None
    assert not any(name.startswith("HERMES_DASHBOARD") for name in without.environment)


def test_an_image_may_write_where_the_file_allows_it_and_has_time_to_stop() -> None:
    mounts = [{"host": "/srv/a", "path": "/fast"}, {"host": "/srv/b", "path": "/library", "read_only": True}]
    found = workload(**IMAGE, version=None, mounts=mounts, settings={"agent": {"restart_drain_timeout": 100}}).image
    assert found is not None
    assert found.environment["HERMES_WRITE_SAFE_ROOT"] == "/opt/data:/state/home:/fast:/d"
    assert found.environment["S6_KILL_GRACETIME"] == "115000"


def test_only_a_locked_configuration_is_not_converted_by_the_image() -> None:
    skipped = [
        "HERMES_SKIP_CONFIG_MIGRATION" in found.environment
        for managed in ("strict", "pinned")
        if (found := workload(**IMAGE, managed=managed).image)
    ]
    assert skipped == [True, False]


@pytest.mark.parametrize(
    ("restart", "exits"),
    [
        *(("on-failure", (75, 1)), ("always", (75,)), ("on-success", (75,)), ("on-abnormal", (75,))),
        *(("on-abort", (75,)), ("on-watchdog", (75,)), ("no", (75,))),
    ],
)
def test_exit_codes_that_request_a_restart_depend_on_the_restart_policy(restart: str, exits: tuple[int, ...]) -> None:
    process = messaging(workload(service={"restart": restart}))
    assert (process.restart_exits, process.clean_exits, process.fatal_exits) == (exits, (0, 1), (78,))


@pytest.mark.parametrize(("agent", "seconds"), [({}, 90), ({"restart_drain_timeout": 300}, 330), (None, 90)])
def test_a_stop_waits_longer_than_the_drain_timeout_of_hermes(agent: Any, seconds: int) -> None:
    assert messaging(workload(settings={"agent": agent})).stop_seconds == seconds


def test_a_pinned_value_is_quoted_so_that_nothing_is_replaced_in_it() -> None:
    pinned = file(workload(environment={"A": "it's ${HOME} \\ 'x'"}), "hermes/.env")
    assert "A='it\\'s ${HOME} \\\\ \\'x\\''" in pinned.splitlines()


def test_strict_locks_more_files_of_the_state_than_pinned() -> None:
    def locked(mode: str) -> set[str]:
        files = workload(managed=mode).state_files
        return {each.path.removeprefix(".hermes/") for each in files if each.keep is Keep.LOCKED}

    assert locked("strict") == {".env", ".op.env", "active_profile", "config.yaml", "gateway.json", ".managed"}
    assert locked("pinned") == {".env", ".op.env", "active_profile"}
    assert "HERMES_MANAGED" in messaging(workload()).environment
    assert "HERMES_MANAGED" not in messaging(workload(managed="pinned")).environment


@pytest.mark.parametrize(
    ("line", "strict", "pinned"),
    [
        ("setup", True, False),
        ("config set a b", True, False),
        ("-p other config edit", True, False),
        ("--profile=other -m some/model config unset a", True, False),
        ("gateway install --force", True, True),
        ("gateway uninstall", True, True),
        ("update --check", True, True),
        ("uninstall", True, True),
        ("profile use other", True, True),
        ("config get a", False, False),
        ("gateway run", False, False),
        ("cron create 1h setup", False, False),
        ("skills install x", False, False),
        ("memory setup", False, False),
        ("-z update", False, False),
        ("", False, False),
    ],
)
def test_which_commands_are_refused(line: str, strict: bool, pinned: bool) -> None:
    words = tuple(launch.command(line.split()))
    for mode, expected in ((Managed.STRICT, strict), (Managed.PINNED, pinned)):
        assert any(words[: len(each)] == tuple(each) for each in managed.refused(mode)) is expected, mode


@pytest.mark.parametrize(
    ("content", "stays"),
    [
        ({"pid": os.getppid()}, True),  # a gateway that runs
        ({"pid": os.getpid()}, False),  # in a container, the last run had the same number
        ({"pid": 2**22 + 1}, False),  # more than Linux gives
        ({"pid": 2**70}, False),
        ({"pid": "x"}, False),
        ({}, False),
        ([], False),
    ],
)
def test_a_start_forgets_the_connectors_of_a_run_that_has_ended(content: Any, stays: bool, tmp_path: Path) -> None:
    state = tmp_path / "gateway_state.json"
    state.write_text(json.dumps(content))
    launch.forget_ended_run(state)
    assert state.exists() is stays
    launch.forget_ended_run(tmp_path / "missing")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("gateway run", "--profile=default gateway run"),
        ("", "--profile=default"),
        ("-p other config get a", "-p other config get a"),
        ("--profile=other chat", "--profile=other chat"),
    ],
)
def test_the_command_names_its_profile(line: str, expected: str) -> None:
    assert launch.with_profile(line.split()) == expected.split()
