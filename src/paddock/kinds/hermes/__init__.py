"""Agents of kind ``hermes``: Nous Research's Hermes Agent."""
