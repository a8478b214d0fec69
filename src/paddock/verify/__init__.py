"""The checks of ``verify``: pure functions that judge facts, and the look that collects them."""
