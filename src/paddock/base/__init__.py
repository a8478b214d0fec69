"""What every room may import: errors, secrets, the clock, and the gate that starts processes."""
