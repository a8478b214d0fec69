"""Rules across several models."""
