"""Which backups count, once new ones are encrypted or signed. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from paddock.backups import Backup, Distrust


def judged(listed: Sequence[Backup], *, encrypts: bool, verifies: bool) -> list[Backup]:
    """Return the backups. Those that are less than a backup from before them say why they do not count.

    Who can write to a destination can add files there. Only the owner of a key could have gone on with encrypted or
    signed backups, so a later one that is neither is somebody else's, or made without that part of the file.
    """
    found = sorted(listed, key=lambda each: each.made)
    encrypted = next((each for each in found if each.encrypted), None) if encrypts else None
    signed = next((each for each in found if each.signed), None) if verifies else None
    return [replace(each, distrust=_distrust(each, encrypted, signed)) for each in found]


def _distrust(backup: Backup, encrypted: Backup | None, signed: Backup | None) -> Distrust | None:
    if encrypted and not backup.encrypted and backup.made > encrypted.made:
        return Distrust(f"it is not encrypted, and an older one, {encrypted.name}, is", final=True)
    if signed and not backup.signed and backup.made > signed.made:
        return Distrust(f"it is not signed, and an older one, {signed.name}, is", final=False)
    return None
