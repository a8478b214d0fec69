"""What Python's urllib asks on macOS: the proxies of the system. There are none here."""

from __future__ import annotations


def _get_proxy_settings() -> dict[str, object]:
    return {}


def _get_proxies() -> dict[str, str]:
    return {}
