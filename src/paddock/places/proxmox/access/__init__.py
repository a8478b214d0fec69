"""The privileges of a token: which are needed, which are missing, and root's commands that grant them."""
