"""The containers' network: a bridge on the host with DHCP, DNS and NAT."""

from __future__ import annotations

import ipaddress
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pvebox.api.errors import SandboxError
from pvebox.runtime.lxc.names import RUN, Names
from pvebox.server.process import attempt, command_line, run, terminate_if_owned

_FORWARD: Final = Path("/proc/sys/net/ipv4/ip_forward")
# The host's forwarding setting before its first sandbox. All sandboxes of the host share this file.
_FORWARD_NOTE: Final = RUN / "ip_forward"
_COMMENT_START: Final = "pvebox-"


@dataclass(frozen=True)
class Bridge:
    """The network of a sandbox."""

    names: Names
    network: ipaddress.IPv4Network

    @property
    def gateway(self) -> str:
        """The address of the bridge, which is the containers' gateway."""
        return str(self.network[1])

    def up(self) -> bool:
        """Create the bridge, its DHCP server and NAT if they are missing. Return whether the bridge is new."""
        name = self.names.bridge
        is_new = not Path(f"/sys/class/net/{name}").exists()
        if is_new:
            run("ip", "link", "add", name, "type", "bridge")
            run("ip", "addr", "add", f"{self.gateway}/{self.network.prefixlen}", "dev", name)
            run("ip", "link", "set", name, "up")
        self._forward()
        self._serve_addresses()
        return is_new

    def _forward(self) -> None:
        if _FORWARD.read_text(encoding="ascii").strip() != "1":
            _FORWARD_NOTE.parent.mkdir(parents=True, exist_ok=True)
            _FORWARD_NOTE.write_text(_FORWARD.read_text(encoding="ascii"), encoding="ascii")
            _FORWARD.write_text("1\n", encoding="ascii")
        comment = ("-m", "comment", "--comment", self.names.rule_comment)
        subnet, name = str(self.network), self.names.bridge
        rules = (
            ("nat", "POSTROUTING", ("-s", subnet, "!", "-d", subnet, *comment, "-j", "MASQUERADE")),
            ("filter", "FORWARD", ("-i", name, *comment, "-j", "ACCEPT")),
            ("filter", "FORWARD", ("-o", name, *comment, "-j", "ACCEPT")),
        )
        for table, chain, rule in rules:
            if not attempt("iptables", "-w", "-t", table, "-C", chain, *rule).ok:
                run("iptables", "-w", "-t", table, "-I", chain, *rule)

    def _serve_addresses(self) -> None:
        directory = self.names.state / "run"
        directory.mkdir(parents=True, exist_ok=True)
        pid_file = directory / "dnsmasq.pid"
        if pid_file.exists() and str(directory) in command_line(_pid(pid_file)):
            return
        first, last = self.network[10], self.network[-2]
        run(
            "dnsmasq",
            "--conf-file=/dev/null",
            f"--pid-file={pid_file}",
            f"--dhcp-leasefile={directory / 'dnsmasq.leases'}",
            f"--interface={self.names.bridge}",
            "--bind-interfaces",
            "--except-interface=lo",
            f"--dhcp-range={first},{last},12h",
            f"--dhcp-option=option:router,{self.gateway}",
            "--dhcp-authoritative",
            "--dhcp-no-override",
            "--no-ping",
            "--user=root",
            "--group=root",
        )


def choose_network(names: Names, wanted: str | None) -> ipaddress.IPv4Network:
    """Return the network saved by an earlier server, else the wanted one, else a free one in 10.0.0.0/8."""
    note = names.state / "run" / "subnet"
    if note.exists():
        return ipaddress.IPv4Network(note.read_text(encoding="ascii").strip())
    network = _free_network(names) if wanted is None else _parse(wanted)
    note.parent.mkdir(parents=True, exist_ok=True)
    note.write_text(f"{network}\n", encoding="ascii")
    return network


def _parse(text: str) -> ipaddress.IPv4Network:
    try:
        network = ipaddress.IPv4Network(text)
    except ValueError:
        raise SandboxError(f"{text} is not an IPv4 network.", hint="For example: 10.77.0.0/24") from None
    if network.prefixlen > 28:
        raise SandboxError(f"The network {text} is too small.", hint="It needs at least 16 addresses.")
    return network


def _free_network(names: Names) -> ipaddress.IPv4Network:
    routes = json.loads(run("ip", "-json", "-4", "route", "show", "table", "all") or "[]")
    taken = [
        ipaddress.IPv4Network(route["dst"], strict=False)
        for route in routes
        if route.get("dst") not in (None, "default") and "/" in route["dst"]
    ]
    start = int(names.short_id, 16)
    for step in range(65536):
        number = (start + step) % (128 * 256)
        candidate = ipaddress.IPv4Network(f"10.{100 + number // 256 % 128}.{number % 256}.0/24")
        if not any(candidate.overlaps(network) for network in taken):
            return candidate
    raise SandboxError("There is no free network in 10.0.0.0/8.", hint="Choose a network with --subnet.")


def _pid(file: Path) -> int:
    text = file.read_text(encoding="ascii").strip()
    return int(text) if text.isdecimal() else 0


def down(names: Names) -> None:
    """Remove a sandbox's bridge, DHCP server and firewall rules, also those of an earlier server."""
    pid_file = names.state / "run" / "dnsmasq.pid"
    if pid_file.exists():
        terminate_if_owned(_pid(pid_file), str(names.state))
        pid_file.unlink(missing_ok=True)
    for table in ("nat", "filter"):
        for line in attempt("iptables", "-w", "-t", table, "-S").out.split("\n"):
            if names.rule_comment in line and line.startswith("-A "):
                rule = [part.strip('"') for part in line.split(" ")[1:]]
                attempt("iptables", "-w", "-t", table, "-D", *rule)
    if Path(f"/sys/class/net/{names.bridge}").exists():
        attempt("ip", "link", "delete", names.bridge)
    others = _COMMENT_START in attempt("iptables", "-w", "-t", "nat", "-S").out
    if _FORWARD_NOTE.exists() and not others:
        _FORWARD.write_text(_FORWARD_NOTE.read_text(encoding="ascii"), encoding="ascii")
        _FORWARD_NOTE.unlink()
