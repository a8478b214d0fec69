"""Invalid parameters are rejected with Proxmox's messages."""

from __future__ import annotations

import pytest

from pvebox.api import formats
from pvebox.api.errors import ParameterError
from pvebox.api.schema import Prop, parse_property_string, print_property_string, verify
from pvebox.guests.options import MOUNT_POINT, NETWORK, SETTABLE


def errors_of(values: dict[str, object]) -> dict[str, str]:
    with pytest.raises(ParameterError) as caught:
        verify(values, SETTABLE)
    return caught.value.errors


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("memory", "15", "value must have a minimum value of 16"),
        ("memory", "lots", "type check ('integer') failed - got 'lots'"),
        ("cores", "9000", "value must have a maximum value of 8192"),
        ("cmode", "x", "value 'x' does not have a value in the enumeration 'shell, console, tty'"),
        ("hostname", "a_b", "invalid format - value does not look like a valid DNS name\n"),
        ("net0", "name=e,name=f", "invalid format - duplicate key in comma-separated list property: name\n"),
        (
            "net0",
            "eth0",
            "invalid format - value without key, but schema does not define a default key\n",
        ),
        ("mp0", "a:1,mp=/x/..", "invalid format - format error\nmp0.mp: invalid format - /x/.. contains"),
        ("startup", "soon", "invalid format - unable to parse startup options\n"),
        ("onboot", {"a": 1}, "type check ('boolean') failed - got HASH"),
    ],
)
def test_an_invalid_value_is_rejected_with_the_message_of_proxmox(key: str, value: object, words: str) -> None:
    assert errors_of({key: value})[key].startswith(words)


def test_a_missing_required_property_is_reported_under_its_own_key() -> None:
    properties = {"unique": Prop(optional=True, requires="restore"), "restore": Prop(optional=True)}
    with pytest.raises(ParameterError) as caught:
        verify({"unique": "1"}, properties)
    assert caught.value.errors == {"restore": "missing property required by 'unique'"}


def test_property_strings_are_printed_in_the_order_of_proxmox() -> None:
    parts = parse_property_string("size=1G,mp=/x,local-lvm:vm-1-disk-0,ro=yes,backup=1", MOUNT_POINT)
    assert print_property_string(parts, MOUNT_POINT) == "local-lvm:vm-1-disk-0,mp=/x,backup=1,ro=1,size=1G"
    net = parse_property_string("ip=dhcp,bridge=vmbr0,name=eth0,type=veth", NETWORK)
    assert print_property_string(net, NETWORK) == "name=eth0,bridge=vmbr0,ip=dhcp,type=veth"


@pytest.mark.parametrize(
    ("size", "text"),
    [(1 << 30, "1G"), (1536 << 20, "1536M"), (512 << 20, "512M"), (1000, "1000"), (3 << 40, "3T")],
)
def test_sizes_are_printed_with_the_largest_exact_unit(size: int, text: str) -> None:
    assert formats.format_size(size) == text
    assert formats.parse_size(text) == size
