"""The state of an agent as a stream. These modules run on machines, and on this one."""
