"""Stand-ins for servers that an agent talks to, and a stage for demos and tests."""
