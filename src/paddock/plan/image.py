"""The images of an agent's container: the one it runs, the one that the file's name means now, and the one before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, Self

from paddock.frozen import frozen

_UNKNOWN: Final = "-"
_SHORT: Final = 19  # characters of a digest that tell two images apart: sha256: and 12 more


@frozen
class Image:
    """An image in the engine of a machine."""

    id: str  # in this engine
    digest: str = ""  # in the registry that it was pulled from
    pulled: str = ""  # when, in UTC; not known if Paddock did not pull it
    name: str = ""  # a name by which Paddock keeps it, also when its tag names a newer one

    @classmethod
    def from_record(cls, record: str) -> Self | None:
        """Read a record ``ID DIGEST TIME NAME`` of a report; None if it is not one."""
        words = record.split(" ")
        if len(words) != 4 or words[0] in ("", _UNKNOWN):
            return None
        return cls(*("" if word == _UNKNOWN else word for word in words))

    @property
    def shown(self) -> str:
        """The digest in the registry, or the engine's own id."""
        return self.digest or f"sha256:{self.id}"

    @property
    def short(self) -> str:
        return self.shown[:_SHORT]

    def reference(self, name: str) -> str:
        """Return what names exactly this image, which had this name: its digest, or the name that Paddock gave it."""
        if not self.digest:
            return self.name
        folder, slash, last = name.partition("@")[0].rpartition("/")
        return f"{folder}{slash}{last.partition(':')[0]}@{self.digest}"


@frozen
class ImagesSeen:
    """The images of an agent in the engine of its machine."""

    present: Image | None = None  # what the name in the file means in the engine
    runs: Image | None = None  # what the container was created from
    before: Image | None = None  # what the agent was verified with before that one

    @classmethod
    def from_records(cls, values: Mapping[str, str]) -> Self:
        return cls(*(Image.from_record(values.get(f"image.{part}", "")) for part in ("present", "runs", "before")))

    @property
    def outdated(self) -> bool:
        """Whether the container runs another image than its name means now."""
        return self.present is not None and self.runs is not None and self.present.id != self.runs.id

    def difference(self, name: str) -> str:
        """Say which image the container runs, and which one its name means now."""
        old, new = (image.short if image else "no image" for image in (self.runs, self.present))
        return f"the container runs {old}, and {name} is {new} now"


def notes(name: str, seen: ImagesSeen) -> Iterator[str]:
    """Yield a note about a container that runs an older image than the engine has."""
    if seen.outdated:
        yield f"{seen.difference(name)}; `paddock up --pull` pulls it again and recreates the container"
