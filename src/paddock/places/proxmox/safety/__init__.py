"""Checks that keep two runs, or a late one, from doing harm."""
