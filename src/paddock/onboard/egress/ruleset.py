"""The nftables rules for the account of one agent, as a text. Runs on the machine."""

from __future__ import annotations

import ipaddress

# Networks that are not the internet: private, shared (CGNAT), link-local with the metadata services of clouds,
# multicast, and reserved ones. IANA's registries of special-purpose addresses list them.
SPECIAL_4 = (
    *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24"),
    *("192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24"),
    *("224.0.0.0/4", "240.0.0.0/4"),
)
NAT64 = "64:ff9b::"  # IPv4 addresses as IPv6, for networks without IPv4
# Only these networks of IPv6 are the internet, without those that contain IPv4 addresses in other forms.
INTERNET_6 = ("2000::/3", NAT64 + "/96")
SPECIAL_6 = ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")

REJECT = "reject with icmpx admin-prohibited"
DENIED = 0x80000000
NOBODY = 0xFFFFFFFF  # the number that no account has


def ruleset(
    table: str,
    uid: int,
    allowed: list[tuple[str, int | None]],
    denied: list[str] | None,
    storage: list[tuple[str, str | None]],
) -> str:
    """Return the commands that replace the table in one transaction.

    ``allowed`` are networks with a port, or with None for all protocols. ``denied`` are networks that the internet does
    not include here; with None, only what is allowed can be reached. ``storage`` are networks to which the
    kernel itself may connect, with ports in the form of nft, or with None for all.
    """
    rules = [
        f"oif lo ct mark {DENIED | uid} counter {REJECT}",
        "ct state established,related accept",
        *sorted({_accept(network, port) for network, port in allowed}),
        # Whose port this is shows when it answers: see the chain output.
        f"oif lo meta l4proto tcp ct state new ct mark set {uid} accept",
        f"oif lo counter {REJECT}",
    ]
    if denied is not None:
        four, six = not_internet(denied)
        rules += [
            f"ip daddr {{ {', '.join(four)} }} counter {REJECT}",
            f"ip6 daddr {{ {', '.join(six)} }} counter {REJECT}",
            f"ip6 daddr {{ {', '.join(INTERNET_6)} }} accept",
            "meta nfproto ipv4 accept",
        ]
    rules.append(f"counter {REJECT}")
    return "\n".join(
        [
            f"table inet {table}",
            f"delete table inet {table}",
            f"table inet {table} {{",
            "    chain output {",
            "        type filter hook output priority filter; policy accept;",
            f"        meta skuid {uid} jump agent",
            # Here the sender is not the agent. So the agent has connected to a port of another account, which accepts.
            "        oif lo tcp flags & (syn | ack) == syn | ack ct direction reply"
            f" ct mark {{ {uid}, {DENIED | uid} }} ct mark set {DENIED | uid} counter drop",
            # A packet without an owner matches no comparison of its owner.
            f"        meta skuid != {NOBODY} accept",
            # The kernel connects for a program without giving it the socket: SMC (protocol 256) and further paths of
            # MPTCP. Only such a first packet tells. The rest has an owner, or none because its program has ended.
            *(f"        {_kernel(network, ports)}" for network, ports in sorted(set(storage), key=str)),
            f"        tcp flags & (fin | syn | rst | ack) == syn counter {REJECT}",
            "    }",
            "    chain agent {",
            *(f"        {rule}" for rule in rules),
            "    }",
            "}",
            "",
        ]
    )


def _accept(network: str, port: int | None) -> str:
    address = _to(network)
    return f"{address} accept" if port is None else f"{address} meta l4proto {{ tcp, udp }} th dport {port} accept"


def _kernel(network: str, ports: str | None) -> str:
    return f"{_to(network)} accept" if ports is None else f"{_to(network)} tcp dport {{ {ports} }} accept"


def _to(network: str) -> str:
    return f"{'ip6' if ':' in network else 'ip'} daddr {network}"


def not_internet(denied: list[str]) -> tuple[list[str], list[str]]:
    """Return the networks of IPv4 and IPv6 that are not the internet, without overlaps."""
    denied_4 = (ipaddress.IPv4Network(each) for each in (*SPECIAL_4, *denied) if ":" not in each)
    four = list(ipaddress.collapse_addresses(denied_4))
    embedded = [ipaddress.IPv6Network(f"{NAT64}{each.network_address}/{96 + each.prefixlen}") for each in four]
    denied_6 = (ipaddress.IPv6Network(each) for each in (*SPECIAL_6, *denied) if ":" in each)
    six = list(ipaddress.collapse_addresses([*denied_6, *embedded]))
    return [str(each) for each in four], [str(each) for each in six]
