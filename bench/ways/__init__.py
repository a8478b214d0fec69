"""Three ways to the same end state: the usual tools, Paddock, and no tool at all."""
