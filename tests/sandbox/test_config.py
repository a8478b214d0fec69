"""A container's config file is parsed and written byte for byte."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pvebox.guests import config as ct

TEXT = """\
#line1
#line2 %C3%A4 %3A
arch: amd64
cpulimit: 0.5
memory: 512
onboot: 1
rootfs: local-lvm:vm-100-disk-0,size=2G
lxc.signal.halt: SIGTERM

[pve:pending]
delete: mp0
features: nesting=0

[before]
#d
arch: amd64
snaptime: 1794708475
"""


def test_parsing_and_writing_a_config_keeps_its_text() -> None:
    assert ct.write(ct.parse(TEXT)) == TEXT


def test_parsed_values_have_the_types_of_json_answers() -> None:
    config = ct.parse(TEXT)
    assert config.options["memory"] == 512
    assert config.options["cpulimit"] == "0.5"
    assert config.options["description"] == "line1\nline2 ä :\n"
    assert config.pending == {"features": "nesting=0"}
    assert config.pending_delete == ["mp0"]
    assert config.snapshots["before"]["snaptime"] == 1794708475
    assert config.raw_lxc == [("lxc.signal.halt", "SIGTERM")]
    assert config.digest == ct.digest_of(TEXT)


def test_an_empty_value_is_parsed_as_a_blank() -> None:
    assert ct.parse("searchdomain: \n").options == {"searchdomain": " "}


@given(st.text(st.characters(blacklist_categories=["Cs", "Cc"]), min_size=1, max_size=60))
def test_writing_and_parsing_keeps_any_description(text: str) -> None:
    config = ct.CtConfig(options={"description": text.rstrip() + "x\n", "memory": 512})
    assert ct.parse(ct.write(config)).options == config.options
