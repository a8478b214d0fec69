"""The HTTPS server, its files on this machine, and how it is started and removed."""
