"""The real Hermes with a provider that needs an extra, and with MCP servers that need Node and uv, without root."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from agent.anthropic_model import KEY, Messages, anthropic_model
from agent.installed import install_code
from agent.npm_registry import PACKAGE, npm_registry
from kinds.model_keys import ROWS, agent_of
from levels import by_level
from paddock.demo import Stage, environment, running_agent
from paddock.kinds import agent_from
from paddock.kinds.hermes import model_server
from paddock.kinds.hermes.providers import PROVIDERS
from paddock.kinds.hermes.recipe import Hermes
from pvebox.standins.stage import free_port, stage_folder

pytestmark = pytest.mark.agent

FILE = """\
project: home
places: {{here: {{host: {{}}}}}}
agents:
  hermes:
    kind: hermes
    version: 0.19.0
    place: here
    runtime: process
    settings:
      model: {{provider: anthropic, default: claude-stand-in, context_length: 131072}}
      model_catalog: {{enabled: false}}
    environment: {{ANTHROPIC_BASE_URL: {model}}}
    secrets: {{ANTHROPIC_API_KEY: {{env: ANTHROPIC_API_KEY}}}}
    connectors: {{api_server: {{port: {port}}}}}
    mcp_servers:
      off: {{command: npx, args: [-y, {package}], env: {{NPM_CONFIG_REGISTRY: {registry}, HOUR: "yes"}}}}
      no-such: {{command: uvx, args: [--offline, no-such-package-of-paddock], connect_timeout: 20s}}
      left-out: {{command: no-such-program, enabled: false}}
"""


@pytest.fixture(scope="module")
def stage() -> Iterator[tuple[Stage, Messages]]:
    with ExitStack() as stack:
        folder = stack.enter_context(stage_folder())
        model, registry = stack.enter_context(anthropic_model()), stack.enter_context(npm_registry())
        text = FILE.format(model=model.url, registry=registry, port=free_port(), package=PACKAGE)
        (folder / "paddock.yaml").write_text(text)
        found = Stage(folder, environment(folder, ANTHROPIC_API_KEY=KEY))
        install_code(found)
        stack.enter_context(running_agent(found))
        yield found, model


def test_a_model_of_anthropic_answers(stage: tuple[Stage, Messages]) -> None:
    found, _ = stage
    assert found.paddock("ask", "hermes", "Say hello.").strip() == "ok: Say hello."


def test_the_model_is_offered_the_tool_of_a_server_that_npx_runs(stage: tuple[Stage, Messages]) -> None:
    found, model = stage
    found.paddock("ask", "hermes", "Say ok.")
    assert "mcp__off__hour_yes" in model.tools()


def test_verify_has_a_line_for_each_server(stage: tuple[Stage, Messages]) -> None:
    found, _ = stage
    lines = _lines(found)
    assert lines["mcp.off"]["outcome"] == "ok"
    assert "connected, 1 tool: mcp__off__hour_yes" in lines["mcp.off"]["evidence"]
    assert lines["mcp.no-such"]["outcome"] == "failed"
    assert lines["mcp.no-such"]["evidence"].startswith("the agent's log says: ")
    assert "mcp.left-out" not in lines
    assert lines["answer"]["outcome"] == "ok"


def test_the_package_that_npx_fetched_is_not_part_of_a_backup(stage: tuple[Stage, Messages]) -> None:
    home = Path(stage[0].environment["XDG_DATA_HOME"]) / "paddock/hermes/state/home"
    assert (home / ".npm").is_dir()
    rebuilt = Hermes().keeping(_agent()).rebuilt
    assert ".npm" in rebuilt


def test_the_providers_are_those_of_hermes(stage: tuple[Stage, Messages], tmp_path: Path) -> None:
    program = """
import ast, inspect, json, textwrap
from hermes_cli import auth
from providers import list_providers
source = ast.walk(ast.parse(textwrap.dedent(inspect.getsource(auth.resolve_provider))))
named = (each for each in source if isinstance(each, ast.Assign) and each.targets[0].id == "_PROVIDER_ALIASES")
aliases = ast.literal_eval(next(named).value)
for each in list_providers():
    for alias in each.aliases:
        aliases.setdefault(alias, each.name)
keys = {each.id: each.api_key_env_vars for each in auth.PROVIDER_REGISTRY.values()}
print(json.dumps([aliases, keys]))
"""
    (python,) = Path(stage[0].environment["XDG_DATA_HOME"]).glob("paddock/.code/.store/*/bin/python")
    environment = {"HOME": str(tmp_path), "HERMES_HOME": str(tmp_path / "hermes"), "PATH": "/usr/bin:/bin"}
    aliases, keys = json.loads(subprocess.check_output([python, "-c", program], env=environment, text=True))
    ours = {alias: name for name, each in PROVIDERS.items() for alias in each.aliases if alias != "vertexai"}
    assert {alias: name for alias, name in aliases.items() if alias != name} == ours
    # Hermes handles these three, and the name vertexai, beside its tables.
    assert keys.keys() == PROVIDERS.keys() - {"openrouter", "custom", "vertex"}
    for name, each in PROVIDERS.items():
        if each.keys and name in keys:
            assert tuple(keys[name]) == each.keys, name


def test_hermes_sends_the_key_and_the_model_that_the_table_says(stage: tuple[Stage, Messages], tmp_path: Path) -> None:
    program = """
import json, sys
from gateway.run import _resolve_gateway_model, _resolve_runtime_agent_kwargs
from hermes_cli.config import load_config
from hermes_cli.models import get_default_model_for_provider
from hermes_cli.runtime_provider import resolve_runtime_provider
found = resolve_runtime_provider()
model = found.get("model") or _resolve_gateway_model(load_config()) or get_default_model_for_provider(found["provider"])
print(json.dumps({"url": found["base_url"], "key": found["api_key"], "api_mode": found["api_mode"], "model": model}))
"""
    (python,) = Path(stage[0].environment["XDG_DATA_HOME"]).glob("paddock/.code/.store/*/bin/python")
    running = []
    rows = [each for each in ROWS if "sends" in each]
    for number, row in enumerate(rows[: by_level(3, len(rows))]):
        home = tmp_path / str(number)
        home.mkdir()
        (home / "config.yaml").write_text(json.dumps(model_server.completed(agent_of(row))))
        keys = {name: f"key-of-{name}" for name in (*row.get("secrets", []), *row.get("in_a_file", []))}
        environment = {"HOME": str(home), "HERMES_HOME": str(home), "PATH": "/usr/bin:/bin", **keys}
        argv = [str(python), "-c", program]
        running.append((row, subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, text=True)))
        if len(running) % 4 == 0:
            running[-1][1].wait()
    for row, process in running:
        found, sends = json.loads(process.communicate()[0]), row["sends"]
        key = found["key"].removeprefix("key-of-")
        assert (found["url"], key) == (sends["url"], sends["key"] or "no-key-required"), row["says"]
        assert found["model"] == sends.get("model", found["model"] or "one"), row["says"]
        assert found["api_mode"] == sends.get("api_mode", "chat_completions"), row["says"]


def _agent() -> Any:
    return agent_from({"kind": "hermes", "version": "0.19.0", "place": "here"})


def _lines(stage: Stage) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "paddock", "verify", "--json"],
        cwd=stage.folder,
        env=dict(stage.environment),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    return {line["check"]: line for line in json.loads(done.stdout)[0]["lines"]}
