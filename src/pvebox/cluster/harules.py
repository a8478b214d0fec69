"""Check which HA rules contradict each other, and why, in Proxmox's words."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

Section = dict[str, str]
Errors = dict[str, dict[str, list[str]]]
_Found = Iterator[tuple[str, str, str]]

RULE_TYPES: Final = ("node-affinity", "resource-affinity")


def resources_of(rule: Section) -> list[str]:
    """Return the sorted ids of the resources that a rule names."""
    return sorted(sid for sid in rule.get("resources", "").split(",") if sid)


def nodes_of(rule: Section) -> dict[str, int]:
    """Return the nodes that a rule names, with their priorities."""
    named = [text.partition(":") for text in rule.get("nodes", "").split(",") if text]
    return {node: int(priority or 0) for node, _, priority in named}


@dataclass
class _Rule:
    """An enabled rule."""

    name: str
    resources: set[str]
    nodes: dict[str, int]
    negative: bool

    @property
    def multiple_priorities(self) -> bool:
        return len({*self.nodes.values()}) > 1


@dataclass
class _Union:
    """Positive rules that share resources, directly or through each other, and all their resources."""

    rules: list[_Rule]
    resources: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class _Rules:
    located: list[_Rule]
    together: list[_Rule]
    apart: list[_Rule]
    cluster_nodes: int

    def unions(self) -> list[_Union]:
        found: list[_Union] = []
        for rule in self.together:
            touching = [union for union in found if union.resources & rule.resources]
            merged = _Union([rule], {*rule.resources})
            for union in touching:
                found.remove(union)
                merged.rules += union.rules
                merged.resources |= union.resources
            found.append(merged)
        return found

    def located_with(self, resources: Collection[str]) -> list[_Rule]:
        return [rule for rule in self.located if rule.resources & {*resources}]


def rule_errors(rules: Mapping[str, Section], nodes: Collection[str]) -> Errors:
    """Return the reasons why rules have no effect, by rule and property. Disabled rules are left out."""
    located: list[_Rule] = []
    together: list[_Rule] = []
    apart: list[_Rule] = []
    for name, section in sorted(rules.items()):
        if "disable" in section:
            continue
        rule = _Rule(name, {*resources_of(section)}, nodes_of(section), section.get("affinity") == "negative")
        if section["type"] == "node-affinity":
            located.append(rule)
        else:
            (apart if rule.negative else together).append(rule)
    given = _Rules(located, together, apart, len(nodes))
    errors: Errors = {}
    for check in (_node_checks, _resource_checks, _priority_checks, _single_location_checks, _room_checks):
        for name, key, text in check(given):
            errors.setdefault(name, {}).setdefault(key, []).append(text)
    return errors


def _node_checks(given: _Rules) -> _Found:
    for rule in given.located:
        for sid in sorted(rule.resources):
            if any(sid in other.resources for other in given.located if other is not rule):
                yield rule.name, "resources", f"resource '{sid}' is already used in another node affinity rule"
    for rule in given.located:
        if rule.negative and len(rule.nodes) >= given.cluster_nodes:
            yield rule.name, "nodes", "negative node affinity rule must not specify all cluster nodes"
    for rule in given.located:
        if rule.negative and any(rule.nodes.values()):
            yield rule.name, "nodes", "negative node affinity rule must not specify node priorities"


def _resource_checks(given: _Rules) -> _Found:
    for rule in given.together + given.apart:
        if len(rule.resources) < 2:
            yield rule.name, "resources", "rule is ineffective as there are less than two resources"
    for rule in given.apart:
        if len(rule.resources) > given.cluster_nodes:
            yield rule.name, "resources", "rule defines more resources than available nodes"
    shares = "rule shares two or more resources with a {} resource affinity rule"
    for union in given.unions():
        for rule in given.apart:
            if len(union.resources & rule.resources) >= 2:
                yield rule.name, "resources", shares.format("positive")
                for other in union.rules:
                    yield other.name, "resources", shares.format("negative")


def _priority_checks(given: _Rules) -> _Found:
    for rule in given.together + given.apart:
        pairs = given.located_with(rule.resources)
        if any(pair.multiple_priorities for pair in pairs):
            yield rule.name, "resources", "resources are in node affinity rules with multiple priorities"
            for pair in pairs:
                text = "resources are in a resource affinity rule and cannot be in a node affinity rule"
                yield pair.name, "resources", f"{text} with multiple priorities"


def _single_location_checks(given: _Rules) -> _Found:
    for union in given.unions():
        pairs = given.located_with(union.resources)
        if len(pairs) < 2:
            continue
        for rule in union.rules:
            yield rule.name, "resources", "resources are in multiple node affinity rules"
        for pair in pairs:
            text = "at least one resource is in a positive resource affinity rule and there are other resources"
            yield pair.name, "resources", f"{text} in at least one other node affinity rule already"


def _room_checks(given: _Rules) -> _Found:
    for rule in given.apart:
        pairs = given.located_with(rule.resources)
        located = {sid for pair in pairs for sid in pair.resources & rule.resources}
        if len({node for pair in pairs for node in pair.nodes}) >= len(located):
            continue
        text = "two or more resources are restricted to less nodes than available to the resources"
        yield rule.name, "resources", text
        for pair in pairs:
            text = "at least one resource is in a negative resource affinity rule and this rule would restrict"
            yield pair.name, "resources", f"{text} these to less nodes than available to the resources"
