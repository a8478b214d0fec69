"""The sandbox's answers equal the recorded answers of a cluster of Proxmox's nodes."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from sandbox.conformance.clusters import cluster_differences, load_cluster

NOT_YET: dict[str, str] = json.loads((Path(__file__).parent / "not-yet.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", load_cluster().cases, ids=lambda case: str(case["id"]))
def test_the_answer_of_a_cluster_equals_the_recorded_one(case: dict[str, Any], tmp_path: Path) -> None:
    found = cluster_differences(case, load_cluster(), tmp_path / "state")
    if case["id"] in NOT_YET:
        assert found, f"{case['id']} matches now: remove it from not-yet.json"
        pytest.xfail(NOT_YET[case["id"]])
    assert not found, "\n".join([case["case"], *found])


@pytest.mark.parametrize("case", load_cluster(other_names=True).cases, ids=lambda case: str(case["id"]))
def test_the_answer_of_a_cluster_does_not_depend_on_names(case: dict[str, Any], tmp_path: Path) -> None:
    if case["id"] in NOT_YET:
        pytest.skip(NOT_YET[case["id"]])
    found = cluster_differences(case, load_cluster(other_names=True), tmp_path / "state")
    assert not found, "\n".join([case["case"], *found])


def test_the_other_names_replace_all_recorded_ones() -> None:
    told = json.dumps([load_cluster(other_names=True).cases, load_cluster(other_names=True).states])
    assert not re.findall(r"pve[123]|local-lvm|shared:\d|lxc/5[6-9]\d|vm-5[6-9]\d|ct:5[6-9]\d", told)


def test_the_list_of_recordings_that_are_not_matched_yet_has_a_fixed_length() -> None:
    assert len(NOT_YET) == 11


def test_each_recording_that_is_not_matched_yet_exists_and_has_a_reason() -> None:
    assert set(NOT_YET) <= {case["id"] for case in load_cluster().cases}
    kinds = Counter(reason.partition(":")[0] for reason in NOT_YET.values())
    assert kinds == {"HA manager": 7, "time": 4}
