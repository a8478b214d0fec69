"""Backups of pets that Proxmox makes."""
