"""Rules that one model alone cannot express."""
