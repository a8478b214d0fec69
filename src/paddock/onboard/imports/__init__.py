"""Installs that exist without Paddock, as the source of an agent's state."""
