"""Sources of secrets, and the files that keep them."""
