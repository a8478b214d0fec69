"""Which parts of a state a backup keeps, and where agents keep their state on other machines."""

from __future__ import annotations

from collections.abc import Sequence

from paddock.base.frozen import frozen


@frozen
class Traces:
    """Where agents of a kind have their state on machines that Paddock did not set up, beside homes of accounts."""

    directories: Sequence[str] = ()  # absolute
    names: Sequence[str] = ()  # names of files and directories, anywhere on the machine, that no other program uses
    becomes: str = ""  # the folder of the agent's home for such a state; the home itself if empty
    known_by: Sequence[str] = ()  # names in such a folder, one of which it has
    variable: str = ""  # the environment variable that has its path
    programs: Sequence[str] = ()  # names of the programs that use it
    environment_file: str = ""  # a file in it that sets variables, among them secrets
    rebuilt: Sequence[str] = ()  # patterns, as in `Keeping`: other files than state in such a folder
    wrappers: Sequence[str] = ()  # folders that a zip file of such a state may have around it
    beside: str = ""  # the folder of such a zip file that has files of the home


@frozen
class Messages:
    """The database with the agent's conversations, below its home."""

    database: str
    count: str  # SQL: the number of messages since a time, which is a parameter in seconds since the epoch


@frozen
class Keeping:
    """Which files of a state a backup keeps. The patterns are for paths below the agent's home.

    `*` stands for a part of one name, `**` for any folders; a pattern for a folder matches everything below it.
    """

    rebuilt: Sequence[str] = ()  # files that the agent makes again by itself
    databases: Sequence[str] = ("**/*.db", "**/*.sqlite", "**/*.sqlite3")  # copied by SQLite while the agent writes
    growing: Sequence[str] = ("**/*.jsonl",)  # files that the agent only appends to
    texts: Sequence[str] = ()  # files with its memory as text that a person can read
    messages: Messages | None = None
    recalled: Sequence[str] = ()  # texts that it puts before its model in every new conversation
    required: Sequence[str] = ()  # databases that every state has
    lasting: Sequence[str] = ()  # databases that the agent never deletes once it has them
    acting: Sequence[str] = ()  # files that make it act: schedules, hooks, tokens, settings
