"""The simulated cluster: its nodes, tasks and HA, and where it comes from."""
