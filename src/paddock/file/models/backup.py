"""The key ``backup`` of an agent."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from paddock.file.models.fields import LocalPath, Model, StorageName, VariableName, no_items, no_keys, shorthand, worded
from paddock.file.models.quantities import Duration
from paddock.file.secrets.sources import Source

Count = Annotated[int, Field(ge=0, le=10_000)]
Recipient = Annotated[
    str,
    Field(
        pattern=worded(
            r"^(age1[a-z0-9]{58}|ssh-(ed25519|rsa) AAAA[A-Za-z0-9+/]+={0,2}( [^\r\n]*)?)$",
            "an age recipient: age1…, or a public ssh key",
        )
    ),
]


class ResticSpec(Model):
    """A restic repository. restic encrypts, deduplicates and checks it."""

    repository: str = Field(min_length=1, description="repository as restic writes it: a path, sftp:…, s3:…, rclone:…")
    password: Source = Field(description="password of the repository")
    environment: dict[VariableName, Source] = Field(
        default_factory=no_keys, description="more secret variables for restic, such as AWS_ACCESS_KEY_ID"
    )


class ArchivesSpec(Model):
    """A storage of the agent's Proxmox place. Proxmox makes the backups, with vzdump."""

    storage: StorageName = Field(description="storage for backups: a directory, or a Proxmox Backup Server")


class ToSpec(Model):
    """Where backups are kept: exactly one of these."""

    folder: LocalPath | None = Field(None, description="a folder on this machine; a plain path stands for this")
    restic: ResticSpec | None = Field(None, description="a restic repository")
    proxmox: ArchivesSpec | None = Field(
        None, description="a storage of the agent's Proxmox place; not for a pet that several agents share"
    )

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        if sum(each is not None for each in (self.folder, self.restic, self.proxmox)) != 1:
            raise ValueError("needs exactly one of folder, restic and proxmox")
        return self


class KeepSpec(Model):
    """How many backups `backup prune` keeps: the newest ones, and the newest of each day, week, month and year."""

    last: Count = Field(0, description="number of newest backups to keep")
    daily: Count = Field(0, description="number of days to keep a backup of")
    weekly: Count = Field(0, description="number of weeks to keep a backup of")
    monthly: Count = Field(0, description="number of months to keep a backup of")
    yearly: Count = Field(0, description="number of years to keep a backup of")

    @property
    def empty(self) -> bool:
        return not any((self.last, self.daily, self.weekly, self.monthly, self.yearly))


class SignaturesSpec(Model):
    """Signatures of backups, made and verified with `ssh-keygen -Y`."""

    allowed: LocalPath = Field(
        description="whose signatures count: ssh-keygen's file of allowed signers; keep the lines of former keys"
    )
    key: LocalPath | None = Field(
        None, description="ssh key that signs each new backup, without a passphrase; only backing up needs it"
    )


class BackupSpec(Model):
    """Backups of the agent's state, which `paddock backup` makes."""

    to: Annotated[ToSpec, shorthand(ToSpec, "folder", str, example="a folder, or {restic: {repository: …}}")] = Field(
        description="where they are kept: a folder, {restic: {repository: …, password: …}}, or {proxmox: {storage: …}}"
    )
    keep: KeepSpec = Field(KeepSpec.model_construct(), description="which backups are kept; without it all")
    recipients: list[Recipient] = Field(
        default_factory=no_items,
        description="age recipients that backups in a folder are encrypted to; without it none",
    )
    signatures: SignaturesSpec | None = Field(
        None, description="who signs backups; from the first signed one on, later ones have to be signed"
    )
    max_age: Duration = Field(
        Duration.parse("2d"), description="age of the newest backup beyond which status and verify complain"
    )

    @model_validator(mode="after")
    def _recipients_of_a_folder(self) -> Self:
        if self.recipients and self.to.restic is not None:
            raise ValueError("recipients are for a folder; restic encrypts with the password of its repository")
        if self.recipients and self.to.proxmox is not None:
            raise ValueError("recipients are for a folder; Proxmox encrypts backups if its storage is set up to do so")
        if self.signatures and self.to.proxmox is not None:
            raise ValueError("signatures are for a folder or restic; what Proxmox makes cannot be signed")
        return self
