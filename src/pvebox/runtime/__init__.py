"""Runtimes, which provide volumes and containers: real LXC containers, or simulated ones."""
