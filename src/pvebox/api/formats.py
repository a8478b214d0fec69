"""Checks for the named value formats of Proxmox's parameter schemas, with Proxmox's error messages."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable

from pvebox.api.schema import FormatCheck, FormatError, ListFormat

_DNS_LABEL = r"[a-zA-Z0-9]([a-zA-Z0-9\-]*[a-zA-Z0-9])?"
_SIZE = re.compile(r"(\d+(\.\d+)?)([KMGT])?\Z")
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def split_list(text: str) -> list[str]:
    """Split a list as Proxmox does: at commas, semicolons, NULs and blanks."""
    return [entry for entry in re.split(r"[,;\0\s]+", text.strip()) if entry]


def matching(pattern: str, complaint: str) -> FormatCheck:
    """Return a format for values that match a pattern. `{}` in the complaint stands for the value."""
    compiled = re.compile(pattern, re.ASCII)

    def check(text: str) -> None:
        if not compiled.fullmatch(text):
            raise FormatError(complaint.format(text) + "\n")

    return check


def list_of(check: FormatCheck) -> ListFormat:
    """Return a format for lists whose entries must pass a check."""
    return ListFormat(check, split_list)


vmid = matching(r"[1-9][0-9]{2,8}", "value does not look like a valid VM ID")
node = matching(_DNS_LABEL, "value does not look like a valid node name")
configid = matching(r"[a-zA-Z][a-zA-Z0-9_-]+", "invalid configuration ID '{}'")
storage_id = matching(r"[a-zA-Z][a-zA-Z0-9\-_.]*[a-zA-Z0-9]", "storage ID '{}' contains illegal characters")
dns_name = matching(rf"({_DNS_LABEL}\.)*{_DNS_LABEL}", "value does not look like a valid DNS name")
volume_id = matching(r"([a-zA-Z][a-zA-Z0-9\-_.]*[a-zA-Z0-9]):(.+)", "unable to parse volume ID '{}'")
poolid = matching(r"[A-Za-z0-9._\-]+(/[A-Za-z0-9._\-]+){0,2}", "invalid pool id '{}'")
_username = matching(r"[^\s:/]+@[A-Za-z][A-Za-z0-9._\-]+", "value '{}' does not look like a valid user name")
realm = matching(r"[A-Za-z][A-Za-z0-9._\-]+", "value does not look like a valid realm")
token_id = matching(
    r"[^\s:/]+@[A-Za-z][A-Za-z0-9._\-]+![A-Za-z][A-Za-z0-9._\-]+", "value '{}' does not look like a valid token ID"
)
group_id = matching(r"[A-Za-z0-9._\-]+", "group name '{}' contains invalid characters")
role_id = matching(r"[A-Za-z0-9._\-]+", "role name '{}' contains invalid characters")
tag = matching(r"[a-zA-Z0-9_][a-zA-Z0-9_\-+.]*", "invalid characters in tag")
disk_size = matching(r"\d+(\.\d+)?[KMGT]?", "value does not look like a valid disk size: {}")
mac_address = matching(
    r"[a-fA-F0-9][02468aceACE](:[a-fA-F0-9]{2}){5}",
    "value does not look like a valid unicast MAC address",
)
device_path = matching(r"/dev/.+", "value does not look like a valid device path")
urlencoded = matching(r"[-%a-zA-Z0-9_.!~*'()]*", "invalid urlencoded string: {}")


def userid(text: str) -> None:
    """Raise unless the value is a user name with its realm."""
    if len(text) < 3:
        raise FormatError(f"user name '{text}' is too short\n")
    if len(text) > 64:
        raise FormatError(f"user name '{text}' is too long ({len(text)} > 64)\n")
    _username(text)


def email_opt(text: str) -> None:
    """Raise unless the value is empty or looks like an e-mail address."""
    if text and not re.fullmatch(r"[\w+\-~]+(\.[\w+\-~]+)*@[a-zA-Z0-9\-]+(\.[a-zA-Z0-9\-]+)*", text, re.ASCII):
        raise FormatError("value does not look like a valid email address\n")


def mount_path(text: str) -> None:
    """Raise if a path contains `/./` or `/../`, ends with `/.` or `/..`, or begins with `../`."""
    if re.search(r"/\.\.?/|/\.\.?$|^\.\./", text):
        raise FormatError(f"{text} contains illegal character sequences\n")


def _address(parse: Callable[[str], object], complaint: str) -> FormatCheck:
    def check(text: str) -> None:
        try:
            parse(text)
        except ValueError:
            raise FormatError(complaint + "\n") from None

    return check


ip = _address(ipaddress.ip_address, "value does not look like a valid IP address")
ipv4 = _address(ipaddress.IPv4Address, "value does not look like a valid IPv4 address")
ipv6 = _address(ipaddress.IPv6Address, "value does not look like a valid IPv6 address")


def _network_config(words: tuple[str, ...], version: int) -> FormatCheck:
    longest = 32 if version == 4 else 128
    parse: Callable[[str], object] = ipaddress.IPv4Address if version == 4 else ipaddress.IPv6Address

    def check(text: str) -> None:
        address, slash, prefix = text.partition("/")
        try:
            parse(address)
            fits = bool(slash) and prefix.isdecimal() and 8 <= int(prefix) <= longest
        except ValueError:
            fits = False
        if text not in words and not fits:
            raise FormatError(f"value does not look like a valid ipv{version} network configuration\n")

    return check


ipv4_config = _network_config(("dhcp", "manual"), 4)
ipv6_config = _network_config(("auto", "dhcp", "manual"), 6)


def nameserver(text: str) -> None:
    """Raise unless the value is an IP address, `host`, or a link-local address with its interface."""
    if text == "host":
        return
    bare = text.split("%", 1)[0]
    try:
        ipaddress.ip_address(bare)
    except ValueError:
        raise FormatError(f"value does not look like a valid IP address: {text}\n") from None


def startup_order(text: str) -> None:
    """Raise unless the value consists of order, up and down."""
    for part in text.split(","):
        if part.strip() and not re.fullmatch(r"(order=)?\d+|up=\d+|down=\d+", part, re.ASCII):
            raise FormatError("unable to parse startup options\n")


def timezone(text: str) -> None:
    """Raise unless the value is `host` or the name of a time zone."""
    if text != "host" and not re.fullmatch(r"[A-Za-z0-9_+\-]+(/[A-Za-z0-9_+\-]+)*", text, re.ASCII):
        raise FormatError(f"invalid time zone '{text}'\n")


def parse_size(text: str) -> int | None:
    """Return the bytes of a size with an optional binary unit."""
    found = _SIZE.match(text)
    if not found:
        return None
    return int(float(found[1]) * _UNITS.get(found[3] or "", 1))


def format_size(size: int) -> str:
    """Return a number of bytes in the largest binary unit that is exact."""
    for unit in ("", "K", "M", "G"):
        if size % 1024:
            return f"{size}{unit}"
        size //= 1024
    return f"{size}T"
