"""A Proxmox VE node, worked with an API token alone."""
