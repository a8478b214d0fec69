"""Hermes with all options of its file, seen by the account of the agent and by its users."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from levels import slow_proof
from live.messenger import BOT_TOKEN, Messenger, messenger
from live.node import Node, wait_for
from paddock.onboard.hermes.launch import REFUSED

pytestmark = pytest.mark.live

AUTH = json.dumps({"version": 1, "providers": {}, "seeded": "with-this"})
LOGIN = {"username": "keeper", "password": "of-the-dashboard-1"}
HOOK_SECRET = "webhook-secret-of-the-test"
# An MCP server that can only list its tools.
MCP_SERVER = """
import json, os, sys
for line in sys.stdin:
    request = json.loads(line)
    tool = {"name": "key_of_%d_letters" % len(os.environ["KEY"]), "inputSchema": {"type": "object"}}
    server = {"name": "clock", "version": "1"}
    answers = {
        "initialize": {"protocolVersion": "2024-11-05", "capabilities": {"tools": {}}, "serverInfo": server},
        "tools/list": {"tools": [tool]},
    }
    if "id" in request:
        answer = {"jsonrpc": "2.0", "id": request["id"], "result": answers.get(request["method"], {})}
        print(json.dumps(answer), flush=True)
"""
# The commands that the seed blocks, and those that would change the code.
BLOCKED = (
    "setup",
    "config edit",
    "config set model.default other",
    "gateway install",
    "gateway uninstall",
    "update",
    "uninstall --yes",
)


@dataclass(frozen=True)
class Talker:
    """Hermes on the node, with a file of its own."""

    node: Node
    tree: dict[str, Any]
    chat: Messenger

    @property
    def spec(self) -> dict[str, Any]:
        found: dict[str, Any] = self.tree["agents"]["hermes"]
        return found

    def paddock(self, *words: str, fails: bool = False) -> str:
        path = self.node.write("talker.yaml", self.tree)
        return self.node.paddock(words[0], "-f", str(path), *words[1:], fails=fails).stdout

    def as_agent(self, script: str) -> str:
        """Run a shell script as the agent would: its user, environment and home."""
        return self.paddock("exec", "hermes", "--", "bash", "-c", script)


@pytest.fixture(scope="module")
def talker(node: Node) -> Iterator[Talker]:
    node.paddock("up")  # makes the template that the other tests use too
    node.machine("rm -f /var/lib/paddock/hermes/home/.hermes/auth.json")  # of another test
    tree = node.file()
    login = {"USERNAME": LOGIN["username"], "PASSWORD": LOGIN["password"]}
    own = node.with_environment(BOT_TOKEN=BOT_TOKEN, AUTH=AUTH, HOOK=HOOK_SECRET, **login)
    with messenger(node) as chat:
        spec = tree["agents"]["hermes"]
        chat.connect(spec)
        spec["connectors"]["api_server"]["model_name"] = "our-agent"
        spec["connectors"]["webhook"] = {"routes": {"word": {"prompt": "Say {word}.", "deliver": "telegram"}}}
        spec["secrets"]["WEBHOOK_SECRET"] = {"env": "HOOK"}
        spec["mcp_servers"] = {
            "clock": {"command": "python3", "args": ["/var/lib/paddock/hermes/home/.local/clock.py"]}
            | {"env": {"KEY": "${STANDIN_KEY}"}, "timeout": "20s"}
        }
        spec["dashboard"] = True
        spec["documents"] = {
            "SOUL.md": "You are the keeper of the paddock.\n",
            "USER.md": "The user has three horses.\n",
            "AGENTS.md": "Be brief.\n",
            ".local/clock.py": MCP_SERVER,
        }
        spec["settings"]["terminal"] = {"cwd": "."}
        spec["auth"] = {"from": {"env": "AUTH"}}
        found = Talker(own, tree, chat)
        found.paddock("up")
        yield found


@pytest.fixture(scope="module")
def pinned(talker: Talker) -> Talker:
    """The same agent after it has changed its files, with `managed: pinned` and another document."""
    talker.as_agent("sed -i s/with-this/refreshed/ ~/.hermes/auth.json && echo mine > ~/workspace/AGENTS.md")
    talker.as_agent("echo And a dog. >> ~/.hermes/memories/USER.md")
    talker.spec["managed"] = "pinned"
    talker.spec["documents"] |= {"SOUL.md": "You are its guard.\n", "AGENTS.md": "Be briefer.\n"}
    talker.paddock("up")
    return talker


def test_every_blocked_command_is_refused(talker: Talker) -> None:
    commands = (*BLOCKED, "-p other config set model.default other", "--profile=other config unset model")
    said = talker.as_agent("\n".join(f"hermes {command} 2>&1 >/dev/null </dev/null; echo $?" for command in commands))
    assert said.splitlines() == [REFUSED, "1"] * len(commands)


def test_the_agent_cannot_change_managed_files_by_avoiding_the_wrapper(talker: Talker) -> None:
    before = talker.node.machine("cd /var/lib/paddock/hermes/home/.hermes && sha256sum config.yaml .env active_profile")
    tree = talker.as_agent("sed -n 's/^exec \\(.*\\)\\/bin\\/python .*/\\1/p' $(command -v hermes)").strip()
    tries = [f"{tree}/bin/python -m hermes_cli.main {command}" for command in BLOCKED]
    tries += [f"{tree}/bin/hermes config set model.default other", "echo x > ~/.hermes/config.yaml"]
    tries += [f"cd ~/.hermes && {word}" for word in ("rm -f config.yaml", "mv config.yaml x", "ln -sf /dev/null .env")]
    tries += ["mv ~/.hermes ~/away", "echo other > ~/.hermes/active_profile", f"touch {tree}/x"]
    talker.as_agent(
        "\n".join(f"(unset HERMES_MANAGED; {attempt}) </dev/null >/dev/null 2>&1 &" for attempt in tries) + "\nwait"
    )
    after = talker.node.machine("cd /var/lib/paddock/hermes/home/.hermes && sha256sum config.yaml .env active_profile")
    assert after == before
    assert talker.as_agent("hermes config get model.default").strip() == "stand-in"
    wait_for(
        lambda: "nothing to do" in talker.paddock("plan")
    )  # the agent may end its own processes; systemd restarts them
    wait_for(lambda: talker.node.status()["health"] == "ok")
    assert talker.paddock("ask", "hermes", "Say ok.").strip() == "ok: Say ok."


def test_the_agent_can_create_cron_jobs_and_skills(talker: Talker) -> None:
    made = talker.as_agent(
        "hermes cron create 1h 'Say the time.' && mkdir -p ~/.hermes/skills/x && echo y > ~/.hermes/skills/x/SKILL.md"
    )
    assert "Created" in made or "created" in made
    assert "Say the time." in talker.as_agent("hermes cron list")


def test_files_of_the_state_have_the_expected_owners_and_modes(talker: Talker) -> None:
    home = "/var/lib/paddock/hermes/home"
    found = talker.node.machine(f"cd {home} && stat -c '%n %a %U:%G' . .hermes .hermes/* .hermes/.managed workspace/*")
    lines = dict(line.split(" ", 1) for line in found.splitlines())
    for name in (".", ".hermes"):
        assert lines[name] == "1770 root:hermes", name
    for name in (".hermes/config.yaml", ".hermes/.managed"):
        assert lines[name] == "444 root:root", name
    for name in ("cron", "logs", "memories", "sessions", "skills", "auth.json", "state.db", "gateway.pid"):
        assert lines[f".hermes/{name}"].endswith("hermes:hermes"), name
    assert lines["workspace/AGENTS.md"] == "600 hermes:hermes"
    assert lines[".hermes/SOUL.md"] == "444 root:root"


def test_the_model_gets_every_document(talker: Talker) -> None:
    """AGENTS.md also shows that the agent works in its working directory, although the settings say `.`."""
    asked = {"the keeper": "You are the keeper of the paddock.", "three horses": "The user has three horses."}
    for words, line in {**asked, "Be brief": "Be brief."}.items():
        assert talker.paddock("ask", "hermes", f"Quote {words}").strip() == line


def test_the_agent_has_the_skills_of_the_sources_and_its_own(talker: Talker) -> None:
    tree = talker.as_agent("sed -n 's/^exec \\(.*\\)\\/bin\\/python .*/\\1/p' $(command -v hermes)").strip()
    same = f"cd ~/.hermes/skills && find . -name SKILL.md | sort | (cd {tree}/skills && xargs -r sha256sum) | wc -l"
    talker.as_agent("rm -rf ~/.hermes/skills/x")  # of another test
    assert talker.as_agent(same).strip() == "73"
    shown = talker.paddock("ask", "hermes", "Quote plan:").strip()
    assert "plan" in shown
    talker.as_agent("cd ~/.hermes/skills/productivity/notion && echo mine >> SKILL.md")
    talker.node.machine("systemctl restart paddock-home_hermes.gateway")
    wait_for(lambda: talker.node.status()["health"] == "ok")
    assert talker.as_agent("tail -n 1 ~/.hermes/skills/productivity/notion/SKILL.md").strip() == "mine"
    assert talker.as_agent("find ~/.hermes/skills -name SKILL.md -newermt @0 | wc -l").strip() == "1"


def test_the_auth_file_is_written_to_the_state_and_nowhere_else(talker: Talker) -> None:
    assert talker.as_agent("stat -c %a ~/.hermes/auth.json; cat ~/.hermes/auth.json") == f"600\n{AUTH}"
    found = talker.node.machine("grep -rl with-this /etc/paddock /opt/paddock /var/lib/paddock /var/log || true")
    assert found.split() == ["/var/lib/paddock/hermes/home/.hermes/auth.json"]


def test_mcp_servers_start_with_their_secrets(talker: Talker) -> None:
    length = len(talker.node.stage.environment["STANDIN_KEY"])
    assert f"key_of_{length}_letters" in talker.as_agent("hermes mcp test clock")


def test_the_dashboard_answers_on_loopback_only(talker: Talker) -> None:
    get = "import sys, urllib.request as r; print(r.urlopen(sys.argv[1], timeout=5).read().decode())"
    status = json.loads(talker.as_agent(f"python3 -c '{get}' http://127.0.0.1:9119/api/status"))
    assert status["gateway_running"] is True
    assert "<html" in talker.as_agent(f"python3 -c '{get}' http://127.0.0.1:9119/")
    assert "127.0.0.1:9119" in talker.node.machine("ss -Hltn | awk '{print $4}'").split()


def test_only_allowed_telegram_users_get_answers(talker: Talker) -> None:
    state = "cat /var/lib/paddock/hermes/home/.hermes/gateway_state.json"
    wait_for(lambda: json.loads(talker.node.machine(state))["platforms"]["telegram"]["state"] == "connected")
    talker.chat.say(666, "Let me in.")
    talker.chat.say(4242, "Say hello.")
    wait_for(lambda: any("ok: Say hello" in text for text in talker.chat.heard(4242)))
    talker.chat.say(4242, "And again.")
    wait_for(lambda: any("ok: And again" in text for text in talker.chat.heard(4242)))
    assert talker.chat.heard(666) == []


def test_a_webhook_on_loopback_takes_signed_messages_and_no_routes_of_the_agent(talker: Talker) -> None:
    post = """
import hashlib, hmac, sys, urllib.error, urllib.request as r
route, secret = sys.argv[1:]
body = b"{\\"word\\": \\"cheese\\"}"
sign = "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
try:
    url = "http://127.0.0.1:8644/webhooks/" + route
    print(r.urlopen(r.Request(url, body, {"X-Hub-Signature-256": sign}), timeout=10).status)
except urllib.error.HTTPError as error:
    print(error.code)
"""
    listening = talker.node.machine("ss -Hltn | awk '{print $4}'").split()
    assert [each for each in listening if each.endswith(":8644")] == ["127.0.0.1:8644"]
    own = '{"own": {"secret": "x", "deliver": "log"}}'
    assert talker.as_agent(f"echo '{own}' > ~/.hermes/webhook_subscriptions.json || echo no").strip() == "no"
    tried = [("own", "x"), ("word", "x"), ("word", HOOK_SECRET)]
    said = [talker.as_agent(f"python3 -c '{post}' {route} {secret}").strip() for route, secret in tried]
    assert said == ["404", "401", "202"]
    wait_for(lambda: any("ok: Say cheese" in text for text in talker.chat.heard(4242)))
    proofs = talker.paddock("verify")
    assert "/webhooks/word refuses a message without a signature" in proofs


def test_a_stop_waits_for_the_answer_in_progress(talker: Talker) -> None:
    path = str(talker.node.write("talker.yaml", talker.tree))
    with ThreadPoolExecutor() as beside:
        asked = beside.submit(talker.node.paddock, "ask", "-f", path, "hermes", "Take 4 seconds and say it.")
        wait_for(lambda: talker.node.machine("ss -Htn state established dport = 8642") != "")
        time.sleep(1)  # until the request has reached the model
        talker.node.machine("systemctl stop paddock-home_hermes.gateway")
        assert asked.result(timeout=30).stdout.strip() == "ok: Take 4 seconds and say it."
    ended = talker.node.machine("systemctl show -p Result,ExecMainStatus,ActiveState paddock-home_hermes.gateway")
    assert ended.split() == ["Result=success", "ExecMainStatus=1", "ActiveState=inactive"]


@slow_proof
def test_systemd_restarts_hermes_when_hermes_asks_for_it(talker: Talker) -> None:
    talker.paddock("up")
    show = "systemctl show -p NRestarts,ExecMainStatus paddock-home_hermes.gateway"
    assert "NRestarts=0" in talker.node.machine(show)
    talker.node.machine("systemctl kill -s USR1 --kill-whom=main paddock-home_hermes.gateway")
    wait_for(lambda: "NRestarts=1" in talker.node.machine(show))
    wait_for(lambda: talker.node.status()["health"] == "ok")


def test_up_rewrites_documents_and_keeps_refreshed_credentials(pinned: Talker) -> None:
    found = pinned.as_agent("cat ~/workspace/AGENTS.md ~/.hermes/auth.json")
    assert found == "Be briefer.\n" + AUTH.replace("with-this", "refreshed")


def test_up_keeps_the_memory_of_the_agent_and_replaces_its_soul(pinned: Talker) -> None:
    assert pinned.as_agent("cat ~/.hermes/memories/USER.md") == "The user has three horses.\nAnd a dog.\n"
    assert (
        pinned.as_agent("cat ~/.hermes/SOUL.md; echo x >> ~/.hermes/SOUL.md || echo no") == "You are its guard.\nno\n"
    )
    assert pinned.paddock("ask", "hermes", "Quote guard").strip() == "You are its guard."
    assert pinned.paddock("ask", "hermes", "Quote And a dog").strip() == "And a dog."


def test_pinned_settings_stay_while_other_settings_can_be_edited(pinned: Talker) -> None:
    set_it = "hermes config set {} 2>&1 >/dev/null; echo $?"
    assert pinned.as_agent(set_it.format("display.compact true")) == "0\n"
    assert "compact: true" in pinned.as_agent("cat ~/.hermes/config.yaml")
    assert pinned.as_agent(set_it.format("model.default other")).splitlines()[-1] == "1"
    # All known ways to give Hermes other pinned settings, or more allowed users.
    evil = "model: {default: other, provider: openrouter}\nHERMES_MANAGED_DIR: /tmp\nGATEWAY_ALLOWED_USERS: '666'\n"
    pinned.as_agent(f"cat > ~/.hermes/config.yaml <<'END'\n{evil}END")
    for path in (".env", ".op.env", "pairing/telegram-approved.json", "platforms/pairing/telegram-approved.json"):
        assert pinned.as_agent(f"echo '{{\"666\": {{}}}}' > ~/.hermes/{path} || echo no").strip() == "no", path
    pinned.node.machine("systemctl restart paddock-home_hermes.gateway")
    wait_for(lambda: pinned.node.status()["health"] == "ok")
    assert pinned.paddock("ask", "hermes", "Say ok.").strip() == "ok: Say ok."
    pinned.chat.say(666, "And now?")
    pinned.chat.say(4242, "Are you there.")
    wait_for(lambda: any("Are you there" in text for text in pinned.chat.heard(4242)))
    assert pinned.chat.heard(666) == []
    for command in ("update", "uninstall --yes", "gateway install"):
        assert REFUSED in pinned.as_agent(f"hermes {command} 2>&1 || true"), command


@slow_proof
def test_the_dashboard_on_the_network_asks_for_a_login(pinned: Talker) -> None:
    names = ("USERNAME", "PASSWORD")
    pinned.spec["secrets"] |= {f"HERMES_DASHBOARD_BASIC_AUTH_{name}": {"env": name} for name in names}
    pinned.spec["expose"] = {"dashboard": {}}
    pinned.paddock("up")
    page = f"http://{pinned.node.status()['address']}:9119"
    assert httpx.get(f"{page}/api/sessions").status_code == 401
    with httpx.Client(base_url=page) as person:
        answer = person.post("/auth/password-login", json={"provider": "basic", **LOGIN})
        assert answer.status_code == 200, answer.text
        assert person.get("/api/sessions").status_code == 200
    assert "exposed: 9119" in pinned.paddock("verify", "hermes")


@slow_proof
def test_the_agent_answers_again_after_a_reboot_of_its_machine(pinned: Talker) -> None:
    before = booted(pinned)
    pinned.node.machine("systemctl reboot || true")
    wait_for(lambda: booted(pinned) not in ("", before), seconds=60)
    wait_for(lambda: pinned.node.status()["health"] == "ok", seconds=60)
    assert pinned.paddock("plan").startswith("hermes: nothing to do\n")
    assert pinned.paddock("ask", "hermes", "Say ok.").strip() == "ok: Say ok."


def booted(talker: Talker) -> str:
    """Return when process 1 of the machine was started; empty while the machine cannot be reached."""
    try:
        return talker.node.machine("cut -d ' ' -f 22 /proc/1/stat")
    except AssertionError:
        return ""
