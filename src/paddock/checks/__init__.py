"""The checks of ``verify``: programs that collect facts on the machine, and pure functions that judge them."""
