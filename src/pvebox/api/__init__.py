"""The API: its table of methods, the schemas of parameters, and errors in Proxmox's words."""
