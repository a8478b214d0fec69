"""`verify` on a real agent: each test breaks one thing, sees its check fail, and repairs it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from levels import slow_proof
from live.node import ROOT, Node, wait_for
from paddock.base.secret import Secret
from paddock.core.open import deployments
from paddock.core.verify import Report
from paddock.demo import FACT, QUESTION
from paddock.kinds import load
from paddock.places.proxmox.api import tls
from paddock.places.proxmox.api.client import Client
from paddock.show.reporter import Reporter
from paddock.verbs.verify import verify

pytestmark = pytest.mark.live

HOME = "/var/lib/paddock/hermes/home/.hermes"
GATEWAY = "paddock-home_hermes.gateway.service"
DROP_IN = f"/etc/systemd/system/{GATEWAY}.d"
PACKAGES = "/opt/paddock/.store/*/lib/python3*/site-packages"


# The checks of every Hermes agent on Proxmox.
LINES = {
    *("machine", "state.owner", "state.mounted", "state.private", "state.writable", "lease", "ports"),
    "process.gateway",
    *("health", "answer", "gateway", "connectors", "model", "model.offered", "managed", "databases", "listening"),
    *("listening.machine", "egress.closed"),
    *(f"isolation.{way}" for way in ("user", "capabilities", "privileges", "system_calls", "proc", "sys", "apparmor")),
    *("isolation.login", "isolation.outside"),
    *("secrets.machine", "secrets.notes", "secrets.journal", "files.configuration", "files.code", "ports"),
}


# One try of an unreachable model, instead of three with pauses.
IMPATIENT = ("--set", "agents.hermes.settings.agent.api_max_retries=1", "--set", "agents.hermes.dashboard=true")


@dataclass(frozen=True)
class Bench:
    """A healthy agent, and methods to break it."""

    node: Node
    address: str

    def root(self, script: str) -> str:
        return self.node.shell(self.address, script)

    def report(self, *sets: str) -> Report:
        loaded = load(self.node.stage.folder / "paddock.yaml", sets=[*IMPATIENT[1::2], *sets])
        with deployments(loaded, [], Reporter()) as found:
            return verify(found[0])

    def failed(self, *sets: str) -> dict[str, str]:
        return {line.check: line.evidence for line in self.report(*sets).failed}

    @contextmanager
    def broken(self, script: str, mend: str) -> Iterator[None]:
        self.root(script)
        try:
            yield
        finally:
            self.root(mend)

    @property
    def key(self) -> str:
        return self.node.stage.environment["STANDIN_KEY"]

    @property
    def api(self) -> Client:
        place = self.node.file()["places"]["box"]["proxmox"]
        trust = tls.context(place["url"], Path(place["ca"]), None)
        return Client(place["url"], place["node"], Secret(self.node.token(ROOT)), trust)

    def wait_until_healthy(self) -> None:
        wait_for(lambda: "open" in self.root("bash -c ': </dev/tcp/127.0.0.1/8642' 2>/dev/null && echo open || true"))


@pytest.fixture(scope="module")
def bench(node: Node) -> Iterator[Bench]:
    node.paddock("up", *IMPATIENT)
    node.ask(f"Remember: {FACT}")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in node.stage.environment.items():
            patch.setenv(name, value)
        yield Bench(node, node.status()["address"])


def test_all_checks_pass_on_a_healthy_agent(bench: Bench) -> None:
    report = bench.report()
    assert report.ok, report.as_text()
    assert {line.check for line in report.lines} == LINES | {"process.dashboard", "dashboard", "dashboard.status"}
    said = bench.node.paddock("verify", "hermes", *IMPATIENT).stdout
    assert said.startswith("hermes:\n  ✓ machine ")
    assert bench.key not in said


@pytest.mark.parametrize(
    ("line", "script", "mend"),
    [
        ("state.private", "chmod 1777 /var/lib/paddock/hermes", "chmod 1770 /var/lib/paddock/hermes"),
        (
            "lease",
            "cd /var/lib/paddock/hermes/.paddock && mv lease was && touch lease",
            "cd /var/lib/paddock/hermes/.paddock && mv was lease",
        ),
        (
            "gateway",
            f'sed -i \'s/"running"/"stopped"/\' {HOME}/gateway_state.json',
            f'sed -i \'s/"stopped"/"running"/\' {HOME}/gateway_state.json',
        ),
        (
            "connectors",
            f'sed -i \'s/"connected"/"retrying"/\' {HOME}/gateway_state.json',
            f'sed -i \'s/"retrying"/"connected"/\' {HOME}/gateway_state.json',
        ),
        (
            "databases",
            f"cd {HOME} && (head -c 4096 state.db; head -c 8192 /dev/urandom) >broken.db && chown hermes broken.db",
            f"rm {HOME}/broken.db",
        ),
        (
            "listening",
            "systemd-run --quiet --unit listener --uid hermes python3 -m http.server 8000 && sleep 0.5",
            "systemctl stop listener",
        ),
        (
            "listening.machine",
            "systemd-run --quiet --unit listener python3 -m http.server 8000 && sleep 0.5",
            "systemctl stop listener",
        ),
        (
            "secrets.machine",
            "umask 022; sed 's/^/# /' /etc/paddock/home_hermes/secrets.env >/etc/note.conf",
            "rm /etc/note.conf",
        ),
        ("secrets.machine", "umask 022; sed 's/^/# /' /etc/paddock/home_hermes/secrets.env >/tmp/note", "rm /tmp/note"),
        (
            "files.configuration",
            "echo '# mine' >>/etc/paddock/home_hermes/current/hermes/config.yaml",
            "sed -i '$d' /etc/paddock/home_hermes/current/hermes/config.yaml",
        ),
        ("files.code", f"touch $(echo {PACKAGES})/sitecustomize.py", f"rm {PACKAGES}/sitecustomize.py"),
        (
            "state.writable",
            "fallocate -l $(df -B1 --output=avail /var/lib/paddock/hermes | tail -n 1) "
            "/var/lib/paddock/hermes/fill || true; head -c 1M /dev/zero >/var/lib/paddock/hermes/rest || true",
            "rm -f /var/lib/paddock/hermes/fill /var/lib/paddock/hermes/rest",
        ),
    ],
    ids=lambda value: value if "/" not in value and " " not in value else "",
)
def test_each_defect_fails_its_own_check(bench: Bench, line: str, script: str, mend: str) -> None:
    with bench.broken(script, mend):
        failed = bench.failed()
    # On a full volume the agent may not answer, and a database may be unreadable in the middle of a write.
    assert failed.keys() - ({"answer", "databases"} if line == "state.writable" else set()) == {line}, failed


def test_verify_fails_when_managed_commands_are_not_refused(bench: Bench) -> None:
    refused = "/etc/paddock/home_hermes/current/hermes/refused.json"
    with bench.broken(f"cp -p {refused} /root/refused && echo '[]' >{refused}", f"cp -p /root/refused {refused}"):
        failed = bench.failed()
    assert failed.keys() == {"managed", "files.configuration"}
    assert failed["managed"] == "not refused: update, uninstall, gateway install, setup, config set"


def test_verify_fails_when_the_dashboard_is_stopped(bench: Bench) -> None:
    page = "systemctl {} paddock-home_hermes.dashboard"
    with bench.broken(page.format("stop"), page.format("start")):
        failed = bench.failed()
    assert failed.keys() == {"process.dashboard", "dashboard"}
    wait_for(lambda: not bench.failed())


def test_verify_fails_when_the_pet_is_unprotected(bench: Bench) -> None:
    pet = bench.node.status()["state"].split("-")[2]
    config = f"/nodes/{bench.api.node}/lxc/{pet}/config"
    bench.api.send("PUT", config, {"protection": 0})
    try:
        assert bench.failed().keys() == {"state.owner"}
    finally:
        bench.api.send("PUT", config, {"protection": 1})


def test_verify_finds_secrets_in_notes_and_journals(bench: Bench) -> None:
    config = f"/nodes/{bench.api.node}/lxc/{bench.node.status()['machine']}/config"
    notes = bench.api.get(config)["description"]
    bench.api.send("PUT", config, {"description": f"the key is {bench.key}\n{notes}"})
    journal = bench.node.journals / "20000101T000000-up.jsonl"
    journal.write_text(f'{{"event": "run", "said": "{bench.key}"}}\n')
    try:
        failed = bench.failed()
    finally:
        bench.api.send("PUT", config, {"description": notes})
        journal.unlink()
    assert failed.keys() == {"secrets.notes", "secrets.journal"}
    assert bench.key not in str(failed)


def test_verify_lists_the_offered_models_when_the_chosen_one_is_missing(bench: Bench) -> None:
    failed = bench.failed("agents.hermes.settings.model.default=gpt-9")
    assert failed["model.offered"] == "gpt-9 is not offered; the server offers stand-in"
    assert failed.keys() == {"model.offered", "files.configuration"}, "the changed file was not applied"


def test_verify_fails_when_nothing_listens_on_the_port(bench: Bench) -> None:
    failed = bench.failed("agents.hermes.connectors.api_server.port=8999")
    assert failed.keys() == {"health", "answer", "files.configuration"}
    assert "Connection refused" in failed["health"]


def test_verify_fails_when_the_model_server_is_unreachable(bench: Bench) -> None:
    block = "rule {} uidrange 10000-10000 to " + bench.address.rpartition(".")[0] + ".1/32 prohibit"
    with bench.broken("ip " + block.format("add"), "ip " + block.format("del")):
        failed = bench.failed()
    assert failed.keys() == {"model", "answer"}, failed
    assert bench.node.ask(QUESTION) == FACT


def test_verify_fails_when_the_unit_is_less_confined(bench: Bench) -> None:
    loose = "NoNewPrivileges=no CapabilityBoundingSet=CAP_CHOWN SystemCallFilter= ProtectProc=default"
    more = "RestrictNamespaces=no RestrictSUIDSGID=no ProtectKernelTunables=no SystemCallArchitectures= ProtectClock=no"
    rest = "LockPersonality=no PrivateDevices=no ProtectHostname=no ProtectKernelLogs=no ProtectKernelModules=no"
    lines = "\\n".join(["[Service]", *loose.split(), *more.split(), *rest.split(), "RestrictRealtime=no"])
    script = f"mkdir {DROP_IN} && printf '{lines}\\n' >{DROP_IN}/loose.conf && systemctl daemon-reload"
    with bench.broken(
        f"{script} && systemctl restart {GATEWAY}",
        f"rm -r {DROP_IN} && systemctl daemon-reload && systemctl restart {GATEWAY}",
    ):
        bench.wait_until_healthy()
        failed = bench.failed()
    # The container filters system calls as well.
    assert failed.keys() == {f"isolation.{way}" for way in ("capabilities", "privileges", "proc", "sys")}, failed
    bench.wait_until_healthy()


def test_verify_reports_a_restart_of_the_messaging_process(bench: Bench) -> None:
    pid = bench.root(f"systemctl show -p MainPID --value {GATEWAY}")
    bench.root(f"systemctl kill -s KILL {GATEWAY}")
    wait_for(lambda: bench.root(f"systemctl show -p MainPID --value {GATEWAY}") not in (pid, "0\n"))
    bench.wait_until_healthy()
    report = bench.report()
    assert report.ok, report.as_text()
    assert "restarted once" in next(line.evidence for line in report.lines if line.check == "process.gateway")


def test_a_taken_port_stops_the_unit_without_restarts(bench: Bench) -> None:
    squat = "systemd-run --quiet --unit squatter python3 -m http.server 8642 --bind 127.0.0.1"
    with bench.broken(
        f"systemctl stop {GATEWAY} && {squat} && sleep 1 && systemctl start {GATEWAY}",
        f"systemctl stop squatter && systemctl reset-failed {GATEWAY} && systemctl start {GATEWAY}",
    ):
        wait_for(lambda: "failed" in bench.root(f"systemctl is-active {GATEWAY} || true"))
        ended = bench.root(f"systemctl show -p ExecMainStatus,NRestarts {GATEWAY}").split()
        failed = bench.failed()
    assert sorted(ended) == ["ExecMainStatus=78", "NRestarts=0"], "no restart, since a restart would not help"
    assert "failed" in failed["process.gateway"]
    assert "port 8642 is held by python3" in failed["ports"]
    bench.wait_until_healthy()


# Listens on the agent's port, and notes the keys that it is sent.
KEEPER = """
import http.server
class Keeper(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        open("/tmp/keys", "a").write(self.headers["Authorization"] + "\\n")
        self.send_error(500)
    def log_message(self, *words):
        pass
http.server.ThreadingHTTPServer(("127.0.0.1", 8642), Keeper).serve_forever()
"""


def test_a_program_of_another_user_on_the_agents_port_gets_no_key(bench: Bench) -> None:
    idle = f"mkdir {DROP_IN} && printf '[Service]\\nExecStart=\\nExecStart=sleep 1000\\n' >{DROP_IN}/idle.conf"
    mend = f"systemctl stop keeper; rm -rf {DROP_IN} /tmp/keys; systemctl daemon-reload; systemctl restart {GATEWAY}"
    start = "rm -f /tmp/keys; cat >/run/keeper.py <<'END'\n" + KEEPER + "END\n"
    with bench.broken(f"{idle} && systemctl daemon-reload && systemctl restart {GATEWAY}", mend):
        for user, keys in (("nobody", 0), ("hermes", 1)):
            run = f"systemd-run --quiet --unit keeper --uid {user} python3 /run/keeper.py && sleep 1"
            bench.root(start + run)
            said = bench.node.paddock("ask", "hermes", "Hello.", *IMPATIENT, fails=True).stderr
            found = bench.root("cat /tmp/keys 2>/dev/null || true").split("\n")[:-1]
            assert len(found) == keys, (user, found)
            assert ("who is not the agent's; the key was not sent" in said) == (user == "nobody"), said
            bench.root("systemctl stop keeper")
    bench.wait_until_healthy()


@slow_proof
def test_up_reports_a_wrong_address_of_the_model_as_a_failed_check(bench: Bench) -> None:
    wrong = "agents.hermes.settings.providers.standin.base_url=http://127.0.0.1:9/v1"
    failure = bench.node.paddock("up", *IMPATIENT, "--set", wrong, fails=True).stderr
    assert "hermes is running, but " in failure
    assert "✗ answer" in failure
    bench.node.paddock("up", *IMPATIENT)
    assert bench.failed() == {}
    assert bench.node.ask(QUESTION) == FACT, "the state is unchanged"
