"""Write the files that Proxmox writes into a Debian container: name, network, resolver, keys, accounts."""

from __future__ import annotations

import base64
import hashlib
import ipaddress
import re
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from pvebox.guests.config import CtConfig
from pvebox.guests.network import parse_network
from pvebox.runtime.contract import Say
from pvebox.runtime.lxc.containerroot import ContainerRoot
from pvebox.server.process import run

_BEGIN: Final = "# --- BEGIN PVE ---"
_END: Final = "# --- END PVE ---"
_KEY_KINDS: Final = (("rsa", "3072"), ("ecdsa", "256"), ("ed25519", "256"))
_HOST_TRUST: Final = "/etc/ssl/certs/ca-certificates.crt"


def interfaces_file(config: CtConfig) -> str:
    """Return the text of /etc/network/interfaces for a container's networks."""
    blocks = ["auto lo\niface lo inet loopback\n"]
    for key in sorted(key for key in config.options if re.fullmatch(r"net\d+", key)):
        network = parse_network(str(config.options[key]))
        lines = [f"auto {network['name']}"]
        lines += _stanza(network["name"], "inet", network.get("ip"), network.get("gw"))
        if network.get("ip6"):
            lines += _stanza(network["name"], "inet6", network["ip6"], network.get("gw6"))
        blocks.append("\n".join(lines) + "\n")
    return "\n".join(blocks)


def _stanza(name: str, family: str, address: str | None, gateway: str | None) -> list[str]:
    if address in ("dhcp", "auto", "manual"):
        return [f"iface {name} {family} {address}"]
    if not address:
        return [f"iface {name} {family} manual"]
    lines = [f"iface {name} {family} static", f"\taddress {address}"]
    if gateway:
        network = ipaddress.ip_interface(address).network
        if ipaddress.ip_address(gateway) not in network:
            lines += [
                f"\tpost-up ip route add {gateway} dev {name}",
                f"\tpost-up ip route add default via {gateway}",
            ]
        else:
            lines.append(f"\tgateway {gateway}")
    return lines


def write_identity(root: ContainerRoot, vmid: int, config: CtConfig) -> None:
    """Write host name and network configuration, as Proxmox does before every start."""
    hostname = config.text("hostname") or f"CT{vmid}"
    short = hostname.split(".", 1)[0]
    root.write("/etc/hostname", f"{short}\n")
    names = hostname if hostname == short else f"{hostname} {short}"
    hosts = root.read("/etc/hosts") or "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n"
    own = f"{_BEGIN}\n127.0.1.1 {names}\n{_END}\n"
    kept = re.sub(rf"{_BEGIN}\n.*?{_END}\n", "", hosts, flags=re.DOTALL)
    root.write("/etc/hosts", kept.rstrip("\n") + "\n" + own)
    root.write("/etc/network/interfaces", interfaces_file(config))


def write_resolver(root: ContainerRoot, config: CtConfig, gateway: str) -> None:
    """Write /etc/resolv.conf from the container's options or else from the host's settings."""
    servers = (config.text("nameserver") or "").split()
    search = (config.text("searchdomain") or "").strip()
    if not servers:
        # A container cannot reach a resolver on the host's loopback. It can reach the resolver on the bridge.
        servers = [server for server in _host_nameservers() if not server.startswith("127.")] or [gateway]
    lines = [f"search {search}"] if search else []
    lines += [f"nameserver {server}" for server in servers]
    root.write("/etc/resolv.conf", f"{_BEGIN}\n" + "\n".join(lines) + f"\n{_END}\n")


def _host_nameservers() -> list[str]:
    try:
        text = Path("/etc/resolv.conf").read_text(encoding="utf-8")
    except OSError:
        return []
    return re.findall(r"^nameserver\s+(\d+\.\d+\.\d+\.\d+)", text, re.MULTILINE)


def write_host_trust(root: ContainerRoot) -> None:
    """Copy the host's CA certificates and pip configuration into a container."""
    for source, target in (
        (Path(_HOST_TRUST), _HOST_TRUST),
        (Path("/etc/pip.conf"), "/etc/pip.conf"),
        (Path.home() / ".config/pip/pip.conf", "/root/.config/pip/pip.conf"),
    ):
        if source.is_file():
            root.write(target, source.read_bytes())


def new_host_keys(hostname: str, below: Path) -> dict[str, bytes]:
    """Create ssh host keys in a new directory below another, and return them by file name."""
    with tempfile.TemporaryDirectory(dir=below) as directory, ThreadPoolExecutor() as pool:
        made = [
            pool.submit(
                run,
                *("ssh-keygen", "-q", "-t", kind, "-b", bits, "-N", "", "-C", f"root@{hostname}"),
                *("-f", f"{directory}/ssh_host_{kind}_key"),
            )
            for kind, bits in _KEY_KINDS
        ]
        for each in made:
            each.result()
        return {file.name: file.read_bytes() for file in Path(directory).iterdir()}


def write_host_keys(root: ContainerRoot, keys: dict[str, bytes], say: Say) -> None:
    """Write the ssh host keys to /etc/ssh and log their fingerprints as Proxmox does."""
    for name, content in keys.items():
        if name.endswith(".pub"):
            _, encoded, comment = content.decode().split()
            digest = base64.b64encode(hashlib.sha256(base64.b64decode(encoded)).digest()).decode()
            private = name.removesuffix(".pub")
            say(f"Creating SSH host key '{private}' - this may take some time ...")
            say(f"done: SHA256:{digest.rstrip('=')} {comment}")
        root.write(f"/etc/ssh/{name}", content, 0o644 if name.endswith(".pub") else 0o600)


def write_accounts(root: ContainerRoot, password: str | None, ssh_keys: str | None) -> None:
    """Set root's password and ssh keys. Without a password, lock it."""
    hashed = run("openssl", "passwd", "-6", "-stdin", stdin=password).strip() if password else "*"
    shadow = root.read("/etc/shadow")
    if shadow is not None:
        root.write("/etc/shadow", re.sub(r"^root:[^:]*:", lambda _: f"root:{hashed}:", shadow), 0o640)
    if ssh_keys:
        lines = [line.strip() for line in ssh_keys.split("\n") if line.strip()]
        root.write("/root/.ssh/authorized_keys", f"{_BEGIN}\n" + "\n".join(lines) + f"\n{_END}\n", 0o600)
        root.chmod("/root/.ssh", 0o700)


def forget_machine(root: ContainerRoot) -> None:
    """Empty the machine id, so that the next boot creates a new one."""
    root.write("/etc/machine-id", "", 0o444)


def systemd_version(root: ContainerRoot) -> int | None:
    """Return the version of systemd in a container's root, or None."""
    for folder in (*(f"/usr/lib/{name}/systemd" for name in root.entries("/usr/lib")), "/usr/lib/systemd"):
        for name in root.entries(folder):
            found = re.fullmatch(r"libsystemd-shared-(\d{1,4})\S*\.so", name)
            if found:
                return int(found[1])
    return None
