"""Children of ``paddock run`` in the foreground: for machines without systemd or root."""
