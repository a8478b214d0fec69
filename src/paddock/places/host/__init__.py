"""A Linux machine that exists already."""
