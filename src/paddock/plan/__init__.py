"""Plans: steps, refusals, and the pure functions that compute them."""
