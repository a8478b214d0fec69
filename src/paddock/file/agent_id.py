"""Which agent: a name says it within a file, project and name say it at a place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, order=True)
class AgentId:
    """An agent among all agents of a place.

    As a text it is ``project_name``: neither part can contain ``_``. Paddock 0.1 had no projects, and what it deployed
    is known by the name alone.
    """

    project: str
    name: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read an id from its text."""
        project, _, name = text.rpartition("_")
        return cls(project, name)

    @property
    def in_words(self) -> str:
        """The agent for a person who may know another agent of the same name."""
        return f"{self.name} of project {self.project}" if self.project else f"{self.name}, which has no project"

    def so_far(self, now: AgentId) -> str:
        """Return the sentence about an agent whose id changes from this id."""
        if self.name != now.name:
            return f"has the name {self.name} so far"
        return f"is in project {self.project} so far" if self.project else "has no project so far"

    def __str__(self) -> str:
        return f"{self.project}_{self.name}" if self.project else self.name
