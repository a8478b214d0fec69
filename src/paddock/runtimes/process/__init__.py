"""The runtime process: children of ``paddock run`` in the foreground, without systemd or root."""
