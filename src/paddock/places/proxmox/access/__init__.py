"""What a token may see and do, and root's lines that grant it."""
