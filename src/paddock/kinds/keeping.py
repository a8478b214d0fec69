"""Which parts of a state a backup keeps, and where agents keep their state on other machines."""

from __future__ import annotations

from collections.abc import Sequence

from paddock.base.frozen import frozen


@frozen
class Traces:
    """Where agents of a kind have their state on machines that Paddock did not set up, beside homes of accounts."""

    directories: Sequence[str] = ()  # absolute
    names: Sequence[str] = ()  # names of files and directories, anywhere on the machine, that no other program uses
    becomes: str = ""  # the folder of the agent's home that such a state is; the home itself if empty
    known_by: Sequence[str] = ()  # names in such a folder, one of which it has
    variable: str = ""  # the environment variable that has its path
    programs: Sequence[str] = ()  # names of the programs that use it
    environment_file: str = ""  # a file in it that sets variables, among them secrets
    rebuilt: Sequence[str] = ()  # patterns, as in `Keeping`: what is not state in a folder that Paddock did not make
    wrappers: Sequence[str] = ()  # folders that a zip file of such a state may have around it
    beside: str = ""  # the folder of such a zip file that has files of the home


@frozen
class Messages:
    """The database with the agent's conversations, below its home."""

    database: str
    count: str  # SQL: the number of messages since a time, which is a parameter in seconds since the epoch


@frozen
class Keeping:
    """What of a state is worth keeping. The patterns are for paths below the agent's home.

    `*` stands for a part of one name, `**` for any folders; a pattern that matches a folder matches all that is in it.
    """

    rebuilt: Sequence[str] = ()  # what the agent makes again by itself
    databases: Sequence[str] = ("**/*.db", "**/*.sqlite", "**/*.sqlite3")  # copied by SQLite while the agent writes
    growing: Sequence[str] = ("**/*.jsonl",)  # files that the agent only appends to
    texts: Sequence[str] = ()  # what it has learned, in words that a person can read
    messages: Messages | None = None
    recalled: Sequence[str] = ()  # texts that it puts before its model in every new conversation
    required: Sequence[str] = ()  # databases that every state has
    lasting: Sequence[str] = ()  # databases that the agent never deletes once it has them
    acting: Sequence[str] = ()  # what makes it act by itself or for its people: schedules, hooks, tokens, settings
