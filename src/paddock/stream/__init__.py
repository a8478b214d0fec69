"""The state of an agent as a stream: out of one machine, through this one, into another.

A stream is one ordinary tar. The entries below ``state/`` are the files of the agent's home: the databases first, then
everything else sorted by name, so that two streams of almost the same state are almost equal. A file that changed while
it was read is in the stream again at the end; the last entry of a name is the valid one. The last entry of all is
``manifest.json``: it lists each file with its size and hash. A stream without it is truncated.

``send`` and ``receive`` run on the machine, with whatever Python is there, and without Paddock. They read and write
what an agent controls: names, links, sizes and databases are hostile.
"""
