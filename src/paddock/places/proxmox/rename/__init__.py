"""Giving a pet and a machine another id."""
