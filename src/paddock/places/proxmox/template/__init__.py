"""Templates, from which machines are cloned."""
