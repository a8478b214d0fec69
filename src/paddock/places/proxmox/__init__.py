"""The place ``proxmox``: machines on one Proxmox VE node, managed with an API token."""
