"""What would change: steps, and the pure functions that find them."""
