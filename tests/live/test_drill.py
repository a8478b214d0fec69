"""Drills of real backups: a throwaway copy recalls a fact and does not act, and nothing of it stays."""

from __future__ import annotations

import io
import json
import random
import tarfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import zstandard

from levels import by_level, slow_proof
from live.manual import api_client, container, destroy
from live.messenger import BOT_TOKEN
from live.node import Node, kill_at_step, wait_for
from live.official_image import official_image
from live.test_lease import by_ssh
from paddock.demo import FACT

pytestmark = pytest.mark.live

HOST = 260  # number of a container that is a host for agents
DRILLED = "and the agent recalled a fact of it"
# Plants what makes an agent act, each with a request to a counter.
PLANT = """
import json, os, pathlib, sys
url = sys.argv[1]
home = pathlib.Path(os.environ["HERMES_HOME"])
hook = home / "hooks/count"
hook.mkdir(parents=True, exist_ok=True)
(hook / "HOOK.yaml").write_text("name: count\\nevents: [gateway:startup]\\n")
(hook / "handler.py").write_text(
    f"import urllib.request\\ndef handle(event, context):\\n    urllib.request.urlopen('{url}/hook', timeout=5)\\n"
)
(home / "scripts").mkdir(exist_ok=True)
(home / "scripts/count.sh").write_text(f"python3 -c \\"import urllib.request as r; r.urlopen('{url}/cron')\\"\\n")
from cron.jobs import create_job
create_job(prompt="", schedule="every 1m", name="count", script="count.sh", no_agent=True, deliver="local")
(home / "auth.json").write_text('{"version": 1, "providers": {}}')
"""


def with_backup(node: Node, tree: dict[str, Any] | None = None, **more: Any) -> str:
    """Write a file in which the agent has backups; return its path."""
    tree = tree or node.file()
    tree["agents"]["hermes"] |= {"backup": {"to": "./drilled"}, **more}
    return str(node.write("drilled.yaml", tree))


def back_up(node: Node, path: str) -> Path:
    """Have the agent learn a fact, and back it up; return the archive."""
    node.paddock("ask", "hermes", f"Remember: {FACT}", "-f", path)
    node.paddock("backup", "hermes", "-f", path)
    return max((node.stage.folder / "drilled/home_hermes").glob("*.tar.zst"))


def left(node: Node) -> list[str]:
    """Return the names of everything on the node that a drill may leave behind."""
    client = api_client(node)
    found = [str(each.get("name")) for each in client.get("/nodes/pve/lxc")]
    return [name for name in found if "drill" in name]


def drill_record(node: Node) -> dict[str, Any]:
    return dict(json.loads((node.stage.folder / "drilled/home_hermes/drill.json").read_text()))


def test_a_drill_passes_and_leaves_nothing(agent: Node) -> None:
    path = with_backup(agent)
    archive = back_up(agent, path)
    volumes = {each["volid"] for each in api_client(agent).get("/nodes/pve/storage/local-lvm/content")}
    shown = agent.paddock("drill", "hermes", "--dry-run", "-f", path).stdout
    assert "+ have 0drill-hermes recall a fact of the backup" in shown
    before = agent.machine("systemctl show -p MainPID,ExecMainStartTimestamp paddock-home_hermes.gateway")
    said = agent.paddock("drill", "hermes", "-f", path).stdout
    name = archive.name.partition(".")[0]
    assert f"hermes: backup {name} (0 min old) restored in " in said
    assert DRILLED in said
    assert left(agent) == []
    assert volumes == {each["volid"] for each in api_client(agent).get("/nodes/pve/storage/local-lvm/content")}
    assert drill_record(agent)["backup"] == name
    assert drill_record(agent)["failure"] is None
    assert agent.machine("systemctl show -p MainPID,ExecMainStartTimestamp paddock-home_hermes.gateway") == before


def rewritten(archive: Path, change: Callable[[tarfile.TarInfo, bytes], bytes | None]) -> None:
    """Change the files of an archive. Entries for which ``change`` returns None are left out."""
    with archive.open("rb") as file:
        whole = io.BytesIO(zstandard.ZstdDecompressor().stream_reader(file).read())
    out = io.BytesIO()
    with (
        tarfile.open(fileobj=whole) as source,
        tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as target,
    ):
        for header in source:
            data = source.extractfile(header).read() if header.isreg() else b""  # type: ignore[union-attr]
            changed = change(header, data)
            if changed is not None:
                header.size = len(changed)
                target.addfile(header, io.BytesIO(changed))
    archive.write_bytes(zstandard.ZstdCompressor().compress(out.getvalue()))


def damaged(header: tarfile.TarInfo, data: bytes) -> bytes:
    return data[:-1] + b"?" if header.name.endswith("MEMORY.md") else data


def without_database(header: tarfile.TarInfo, data: bytes) -> bytes | None:
    if header.name.endswith("/state.db"):
        return None
    if header.name != "manifest.json":
        return data
    manifest = json.loads(data)
    manifest["entries"] = [each for each in manifest["entries"] if not each["path"].endswith("/state.db")]
    return json.dumps(manifest).encode()


def test_damaged_incomplete_and_old_backups_do_not_pass(agent: Node) -> None:
    path = with_backup(agent)
    archive = back_up(agent, path)
    whole = archive.read_bytes()

    rewritten(archive, damaged)
    said = agent.paddock("drill", "hermes", "-f", path, fails=True).stderr
    assert "did not pass" in said
    assert "'.hermes/memories/MEMORY.md' is not what its manifest says" in said
    assert "is not what its manifest says" in drill_record(agent)["failure"]
    assert left(agent) == []

    archive.write_bytes(whole)
    rewritten(archive, without_database)
    assert "it lacks .hermes/state.db" in agent.paddock("drill", "hermes", "-f", path, fails=True).stderr
    assert left(agent) == []

    archive.write_bytes(whole)
    for other in archive.parent.glob("20*"):
        if not other.name.startswith(archive.name.partition(".")[0]):
            other.unlink()
    for part in archive.parent.glob("20*"):
        part.rename(part.with_name("2025-01-02T03-04-05Z." + part.name.partition(".")[2]))
    said = agent.paddock("drill", "hermes", "-f", path, fails=True).stderr
    assert f"{DRILLED}; but it is the newest one, and older than backup.max_age, 2d" in said
    assert DRILLED in agent.paddock("drill", "hermes", "2025-01-02T03-04-05Z", "-f", path).stdout


@contextmanager
def counting(host: str) -> Iterator[tuple[str, Counter[str]]]:
    """Serve on an address and count the requests by the first part of their paths."""
    counts: Counter[str] = Counter()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            counts[self.path.split("/")[1]] += 1
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send_response(500 if "hook" not in self.path and "cron" not in self.path else 200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_POST = do_GET  # noqa: N815

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    with ThreadingHTTPServer((host, 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://{host}:{server.server_port}", counts
        server.shutdown()


@slow_proof
def test_the_real_model_is_asked_and_its_answer_judged(agent: Node) -> None:
    path = with_backup(agent)
    back_up(agent, path)
    said = agent.paddock("drill", "hermes", "--real-model", "-f", path, fails=True).stderr
    # The agent's own model repeats the question, so the copy has reached it, and has not passed.
    assert "did not recall a fact of it: it answered 'ok: Without using any tool" in said
    assert left(agent) == []


@slow_proof
def test_a_copy_does_not_act_and_the_agent_itself_does(node: Node) -> None:
    node = node.with_environment(BOT_TOKEN=BOT_TOKEN)
    with counting(node.gateway) as (url, counts):
        path = with_backup(node)
        node.paddock("up", "-f", path)
        python = "/opt/paddock/home_hermes/current/bin/python"
        node.paddock("exec", "hermes", "-f", path, "--", python, "-c", PLANT, url)
        back_up(node, path)
        node.paddock("down", "-f", path)

        tree = node.file()
        spec = tree["agents"]["hermes"]
        spec["secrets"]["TELEGRAM_BOT_TOKEN"] = {"env": "BOT_TOKEN"}
        spec["connectors"]["telegram"] = {"allow": [4242], "endpoint": f"{url}/telegram"}
        spec["connectors"]["ntfy"] = {"topic": "home", "server": f"{url}/ntfy"}
        spec["mcp_servers"] = {"stub": {"url": f"{url}/mcp", "connect_timeout": "3s"}}
        with_backup(node, tree)
        counts.clear()
        assert DRILLED in node.paddock("drill", "hermes", "-f", path).stdout
        assert counts == {}, "the copy acted"

        # The agent itself with the same state and the same file: everything that was planted acts.
        running = node.start("up", "-f", path)
        try:
            wait_for(lambda: {"hook", "cron", "mcp", "telegram", "ntfy"} <= counts.keys(), seconds=200)
        finally:
            running.wait(timeout=200)
            node.paddock("down", "-f", with_backup(node))


@slow_proof
def test_drills_that_are_killed_leave_nothing_behind_the_next_one(agent: Node) -> None:
    path = with_backup(agent)
    back_up(agent, path)
    before = agent.machine("systemctl show -p MainPID,ExecMainStartTimestamp paddock-home_hermes.gateway")
    steps = ("pet.create", "cattle.clone", "state.receive", "state.swap", "agent.answer", "cattle.stop", "pet.destroy")
    for step in steps:
        kill_at_step(agent, step, "drill", "hermes", "-f", path)
    chance = random.Random(15)
    for _ in range(by_level(0, 5)):
        running = agent.start("drill", "hermes", "-f", path)
        time.sleep(chance.uniform(1, 40))
        running.kill()
        running.wait()
    assert DRILLED in agent.paddock("drill", "hermes", "-f", path).stdout
    assert left(agent) == []
    assert agent.machine("systemctl show -p MainPID,ExecMainStartTimestamp paddock-home_hermes.gateway") == before


@slow_proof
def test_copies_beside_their_agent_on_one_host(node: Node) -> None:
    client = api_client(node)
    host = container(node, client, HOST)
    try:
        # A folder of its own: the other agent of this name had more databases.
        path = with_backup(node, by_ssh(node, host), backup={"to": "./drilled-on-a-host"})
        node.paddock("up", "-f", path)
        node.paddock("ask", "hermes", f"Remember: {FACT}", "-f", path)
        node.shell(host, "install -o hermes -g hermes -d /var/lib/paddock/hermes/home/.hermes/hooks/x")
        node.paddock("backup", "hermes", "-f", path)
        folders = "/var/lib/paddock /var/lib/paddock/.agents /etc/paddock /opt/paddock /etc/systemd/system"
        listed = f"ls -A {folders}; cut -d: -f1 /etc/passwd /etc/group; nft list tables"
        node.shell(host, "apt-get install -qq nftables >/dev/null")
        before = node.shell(host, listed)
        assert DRILLED in node.paddock("drill", "hermes", "-f", path).stdout
        assert node.shell(host, listed) == before

        said = node.paddock("restore", "hermes", "--as", "second", "-f", path).stdout
        assert "second: has the state of backup" in said
        print(said)
        home = "/var/lib/paddock/second"
        assert node.shell(host, f"ls -d {home}/home/.hermes/hooks 2>/dev/null || true") == ""
        assert {"cron", "hooks"} <= set(node.shell(host, f"ls -A {home}/.paddock/set-aside/.hermes").split())
        assert "exists already" in node.paddock("restore", "hermes", "--as", "second", "-f", path, fails=True).stderr

        tree = by_ssh(node, host)
        spec = dict(tree["agents"]["hermes"])
        tree["agents"]["second"] = {**spec, "user": {"name": "second", "uid": 10001}}
        tree["agents"]["second"]["connectors"] = {"api_server": {"port": 8700}}
        path = with_backup(node, tree)
        node.paddock("up", "--only", "second", "-f", path)
        assert node.paddock("ask", "second", "What is the gate code?", "-f", path).stdout.strip() == FACT
        assert node.shell(host, f"stat -c %U {home}/home/.hermes/hooks/x").strip() == "second"
        assert node.shell(host, f"ls {home}/.paddock/set-aside 2>/dev/null || true") == ""
    finally:
        destroy(client, HOST)


@slow_proof
def test_a_drill_of_an_agent_in_a_container(node: Node, tmp_path: Path) -> None:
    archive = str(official_image(tmp_path / "official.tar"))
    tree = node.file()
    tree["agents"] = {"boxed": tree["agents"].pop("hermes")}
    tree["agents"]["boxed"] |= {
        "runtime": "docker",
        "container": {"image": "nousresearch/hermes-agent:v0.19.0", "archive": archive, "install": True, "data": "4G"},
        "backup": {"to": "./boxed"},
    }
    path = str(node.write("boxed.yaml", tree))
    node.paddock("up", "-f", path)
    try:
        node.paddock("ask", "boxed", f"Remember: {FACT}", "-f", path)
        node.paddock("backup", "boxed", "-f", path)
        assert DRILLED in node.paddock("drill", "boxed", "-f", path).stdout
        assert left(node) == []
    finally:
        node.paddock("down", "-f", path)
        node.paddock("forget", "boxed", "--name", "boxed", "-f", path)
