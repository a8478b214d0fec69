"""What provides volumes and containers: real LXC containers, or simulated ones."""
