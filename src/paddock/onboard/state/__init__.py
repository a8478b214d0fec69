"""The state of an agent: the check of its path, its identity, its lease, and the files that Paddock writes into it."""
