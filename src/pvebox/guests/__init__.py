"""Containers: their configuration, volumes and life."""
