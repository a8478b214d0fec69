"""Adopting containers and volumes that exist."""
