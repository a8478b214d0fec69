"""The template's part of a plan: machines are cloned from a template, so that recreating one takes seconds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from paddock.file.models.quantities import Size
from paddock.file.models.whole import ProxmoxSpec
from paddock.places.contract import TemplateInfo, TemplateWant
from paddock.places.proxmox.actions import CannotPlan, CreateBuilder, Destroy, Reach, Seal, Shutdown, Start
from paddock.places.proxmox.node.notes import Mark, Role
from paddock.places.proxmox.node.observation import LxcContainer, ProxmoxSeen
from paddock.plan.actions import InstallContents
from paddock.plan.step import Risk, Step

DISK: Final = Size.parse("4G")
CLEAR_SECONDS: Final = 5  # to shut a builder down that nobody needs
FEATURES: Final = "nesting=1"  # of every new template


def name_of(template: TemplateWant, epoch: int) -> str:
    """Return the name of a template's build, as the marks of its machines have it."""
    return f"{template.id}.{epoch}"


def newest(template: TemplateWant, seen: ProxmoxSeen) -> LxcContainer | None:
    """Return the latest finished template with these contents."""
    found = [c for c in _of(seen) if c.mark and c.mark.template == template.id]
    return max(found, key=_epoch, default=None)


def origin(cattle: LxcContainer, seen: ProxmoxSeen) -> LxcContainer | None:
    """Return the template that a machine was cloned from, if it still exists."""
    made_from = cattle.mark.made_from if cattle.mark else None
    return next((c for c in _of(seen) if c.mark and f"{c.mark.template}.{c.mark.epoch}" == made_from), None)


def build_steps(
    template: TemplateWant, vmid: int, seen: ProxmoxSeen, node: ProxmoxSpec, *, epoch: int, key: str, mac: str
) -> list[Step]:
    """Return the steps to a new template; later steps refer to it as ``TEMPLATE``."""
    return [*_clear_leftovers(template, seen), *_build(template, vmid, node, epoch, key, mac)]


def _clear_leftovers(template: TemplateWant, seen: ProxmoxSeen) -> Iterator[Step]:
    """Yield the steps that destroy the builders of interrupted runs, of any contents.

    Refuse while another run builds the same template. Builders of other templates that are in use stay.
    """
    for left in builders(seen):
        if (claim := seen.claim_of_another(left)) is not None:
            if left.mark and left.mark.template == template.id:
                raise CannotPlan(
                    f"{claim.holder} is building template {template.id} in {left.name}",
                    f"wait until it is finished; after {claim.until:%H:%M} UTC it counts as interrupted",
                    code="template.being-built",
                )
            continue
        if left.running:
            action = Shutdown(left.vmid, CLEAR_SECONDS)
            yield Step("template.clear", f"stop builder {left.vmid}", "its build was interrupted", action)
        title = f"destroy builder {left.vmid}"
        yield Step("template.clear", title, "its build was interrupted", Destroy(left.vmid), Risk.RECREATES)


def builders(seen: ProxmoxSeen) -> list[LxcContainer]:
    """Return the containers that a run began to make a template of and has not converted."""
    return [c for c in seen.containers.values() if c.has(Role.BUILDER) or (c.has(Role.TEMPLATE) and not c.is_template)]


def _build(template: TemplateWant, vmid: int, node: ProxmoxSpec, epoch: int, key: str, mac: str) -> Iterator[Step]:
    params: dict[str, str | int] = {
        "ostemplate": node.base.volid,
        "hostname": f"{template.label}-{template.id}",
        "description": str(Mark(Role.BUILDER, template=template.id, epoch=epoch, label=template.label)),
        "tags": "paddock",
        "unprivileged": 1,
        "features": FEATURES,
        "cores": 2,
        "memory": 2048,
        "rootfs": f"{node.storage}:{DISK.gib}",
        "net0": f"name=eth0,bridge={node.bridge},hwaddr={mac},ip=dhcp",
        "ssh-public-keys": key,
        **({"pool": node.pools.machines} if node.pools else {}),
    }
    reason = f"there is no template {template.label} {template.id} yet"
    yield Step(
        "template.create", f"create builder {vmid} for template {template.id}", reason, CreateBuilder(vmid, params)
    )
    yield Step("template.start", f"start builder {vmid}", "the builder is new", Start(vmid))
    yield Step("template.reach", f"reach builder {vmid} over ssh", "the builder is new", Reach(vmid))
    yield Step(
        "template.install",
        f"install packages and code in builder {vmid}",
        "the template contains them",
        InstallContents(),
    )
    title, reason = f"convert builder {vmid} to template {template.id}", "machines are cloned from it"
    yield Step("template.seal", title, reason, Seal(vmid), needs_place_lock=True)  # runs of other agents wait for it


def listed(seen: ProxmoxSeen) -> list[TemplateInfo]:
    """Return all templates, oldest first, with the machines cloned from them; then the unfinished ones."""
    may_go = {template.vmid for template in prunable(seen)}
    finished = [
        TemplateInfo(
            number=template.vmid,
            label=template.mark.label or "-",
            template=template.mark.template or "-",
            epoch=template.mark.epoch or 0,
            made=template.mark.made or "-",
            machines=[c.vmid for c in seen.with_role(Role.CATTLE) if origin(c, seen) is template],
            prunable=template.vmid in may_go,
        )
        for template in sorted(_of(seen), key=_made)
        if template.mark
    ]
    return [*finished, *(_unfinished(builder, builder.mark, seen) for builder in builders(seen) if builder.mark)]


def _unfinished(builder: LxcContainer, mark: Mark, seen: ProxmoxSeen) -> TemplateInfo:
    claim = seen.claim_of_another(builder)
    return TemplateInfo(
        number=builder.vmid,
        label=mark.label or "-",
        template=mark.template or "-",
        epoch=mark.epoch or 0,
        made="-",
        machines=[],
        prunable=claim is None,
        status=f"built by {claim.holder} now" if claim else f"interrupted, {builder.status}",
        finished=False,
    )


def prunable(seen: ProxmoxSeen) -> list[LxcContainer]:
    """Return the templates that may be deleted: unused, and not one of the two newest of their label."""
    in_use = {c.mark.made_from for c in seen.with_role(Role.CATTLE) if c.mark}
    by_label: dict[str | None, list[LxcContainer]] = {}
    for template in _of(seen):
        by_label.setdefault(template.mark.label if template.mark else None, []).append(template)
    return [
        template
        for family in by_label.values()
        for template in sorted(family, key=_made)[:-2]
        if template.mark and f"{template.mark.template}.{template.mark.epoch}" not in in_use
    ]


def _made(container: LxcContainer) -> str:
    return container.mark.made or "" if container.mark else ""


def _of(seen: ProxmoxSeen) -> list[LxcContainer]:
    return [c for c in seen.with_role(Role.TEMPLATE) if c.is_template]


def _epoch(container: LxcContainer) -> int:
    return container.mark.epoch or 0 if container.mark else 0
