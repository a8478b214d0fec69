"""The lxc runtime: unprivileged LXC containers on ext4 images, with a bridge and NAT. Needs root."""

from __future__ import annotations

from pvebox.runtime.lxc.runtime import LxcRuntime

__all__ = ["LxcRuntime"]
