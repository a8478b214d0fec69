"""The command line `pvebox`, and root's console of a node."""
