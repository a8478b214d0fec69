"""Paddock: disposable compute, durable memory for AI agents."""

__version__ = "0.2.0"
