"""Where machines are: Proxmox nodes and hosts. A place knows nothing about the agents on them."""
