"""What a plan says about the engine's storage driver."""

from __future__ import annotations

from dataclasses import replace

from paddock.plan.container import ContainerSeen, ContainerWant, notes

WANT = ContainerWant("docker", "docker.service", True, "image", False, "image=1")


def test_vfs_is_told_with_its_cost_and_the_way_out() -> None:
    seen = ContainerSeen("up", "vfs")
    (note,) = notes(replace(WANT, data=False), seen)
    assert "a full copy of every image layer (storage driver vfs)" in note
    assert "container: {data: 20G}" in note
    (note,) = notes(replace(WANT, data=True), seen)
    assert "a storage with block devices" in note
    (note,) = notes(WANT, seen)
    assert "ext4 or xfs" in note


def test_others_are_not_worth_a_word() -> None:
    assert not list(notes(WANT, ContainerSeen("up", "overlay2")))
    assert not list(notes(WANT, ContainerSeen("missing")))
