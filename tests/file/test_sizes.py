from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.file.models.quantities import Size


@pytest.mark.parametrize(
    ("text", "size"),
    [("512M", 512 << 20), ("10G", 10 << 30), ("10GiB", 10 << 30), ("1.5G", 3 << 29), ("2 T", 2 << 40), ("4k", 4096)],
)
def test_units_of_sizes_are_powers_of_1024(text: str, size: int) -> None:
    assert Size.parse(text) == size


@pytest.mark.parametrize(
    "text", ["", "10", "G", "ten G", "-1G", "1.G", 10, None, 1.5, "10 X", "\u0665G", "9" * 400 + "G"]
)
def test_a_text_without_number_and_unit_is_not_a_size(text: object) -> None:
    with pytest.raises(ValueError, match="a size needs"):
        Size.parse(text)


@given(st.integers(1, 10_000), st.sampled_from("KMGT"))
def test_a_printed_size_is_read_as_the_same_size(number: int, unit: str) -> None:
    size = Size.parse(f"{number}{unit}")
    assert Size.parse(str(size)) == size


def test_a_size_has_the_units_of_the_proxmox_api() -> None:
    assert Size.parse("10G").gib == "10"
    assert Size.parse("512M").gib == "0.5"
    assert Size.parse("4G").mib == 4096
