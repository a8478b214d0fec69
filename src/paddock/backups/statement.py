"""What is said about a backup beside it, and what its signature proves. Pure."""

from __future__ import annotations

from dataclasses import replace

from paddock import bounded
from paddock.backups import Backup, NotProven, Proof
from paddock.backups.verified import described
from paddock.stream.layout import Json


def statement(manifest: Json, name: str, manifest_hash: str, texts_hash: str) -> Json:
    """Return what is said about a backup: whose it is, and hashes that stand for everything in it."""
    return {**described(manifest), "backup": name, "manifest": manifest_hash, "texts": texts_hash}


def proof_of(backup: Backup, content: bytes, by: str) -> Backup:
    """Return a backup with what was signed about it. Raise if that is about another backup."""
    try:
        said = bounded.parsed(content)
        proof = Proof(by, str(said["manifest"]), str(said["texts"]))
        other = (said["backup"], said["agent"]) != (backup.name, backup.about["agent"])
    except (ValueError, KeyError, TypeError):
        raise NotProven(f"what {by} has signed is not about a backup") from None
    if other:
        raise NotProven(f"what {by} has signed is about another backup")
    return replace(backup, about={**backup.about, **said}, proof=proof)
