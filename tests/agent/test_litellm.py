"""The real Hermes Agent uses the real LiteLLM proxy, which uses the stand-in model."""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from levels import slow_proof
from paddock.demo import Stage, environment
from pvebox.standins.stage import free_port, model_server, stage_folder

pytestmark = [pytest.mark.agent, slow_proof]  # the proxy is 750 MB of code to unpack and compile

FILE = """\
project: home
places: {{here: {{host: {{}}}}}}
agents:
  hermes:
    kind: hermes
    version: 0.19.0
    place: here
    runtime: process
    gateway: door
    settings:
      model: {{default: behind-the-door, context_length: 131072}}
      model_catalog: {{enabled: false}}
    connectors: {{api_server: {{port: {api}}}}}
  door:
    kind: litellm
    version: 1.106.2
    place: here
    runtime: process
    port: {proxy}
    settings:
      model_list:
        - model_name: behind-the-door
          litellm_params: {{model: openai/stand-in, api_base: {model}, api_key: os.environ/STANDIN_KEY}}
    secrets:
      STANDIN_KEY: {{env: STANDIN_KEY}}
      LITELLM_MASTER_KEY: {{env: MASTER_KEY}}
"""
# Random: `verify` would find keys that are in the sources of this project, if those are below /tmp.
MASTER_KEY, MODEL_KEY = (f"sk-{secrets.token_hex(16)}" for _ in range(2))


@pytest.fixture
def stage() -> Iterator[Stage]:
    with stage_folder() as folder, model_server(folder, "127.0.0.1", MODEL_KEY) as model:
        text = FILE.format(api=free_port(), proxy=free_port(), model=model["url"])
        (folder / "paddock.yaml").write_text(text)
        yield Stage(folder, environment(folder, MASTER_KEY=MASTER_KEY, STANDIN_KEY=MODEL_KEY))


def paddock(stage: Stage, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "paddock", *words]
    env = dict(stage.environment)
    return subprocess.run(command, cwd=stage.folder, env=env, capture_output=True, text=True, timeout=600)


@contextmanager
def running(stage: Stage, agent: str) -> Iterator[None]:
    command = [sys.executable, "-m", "paddock", "run", agent]
    with subprocess.Popen(command, cwd=stage.folder, env=dict(stage.environment), process_group=0) as process:
        try:
            end = time.monotonic() + 300
            while json.loads(paddock(stage, "status", "--json", "--only", agent).stdout)[0]["health"] != "ok":
                assert process.poll() is None, f"{agent} ended"
                assert time.monotonic() < end, f"{agent} did not become healthy"
                time.sleep(1)
            yield
        finally:
            process.terminate()


def test_hermes_answers_a_prompt_through_the_litellm_proxy(stage: Stage) -> None:
    with running(stage, "door"):
        door = paddock(stage, "verify", "door")
        assert door.returncode == 0, door.stdout + door.stderr
        assert "behind-the-door: ok: Say ok." in door.stdout
        with running(stage, "hermes"):
            asked = paddock(stage, "ask", "hermes", "Say hello.")
            assert asked.stdout.strip() == "ok: Say hello.", asked.stderr
            hermes = paddock(stage, "verify", "hermes")
            assert hermes.returncode == 0, hermes.stdout + hermes.stderr
            assert "behind-the-door is one of 1" in hermes.stdout
            assert MASTER_KEY not in door.stdout + hermes.stdout
