"""The runtime with machines: unprivileged LXC containers on ext4 images, a bridge and NAT. Needs root."""

from __future__ import annotations

from .runtime import LxcRuntime

__all__ = ["LxcRuntime"]
