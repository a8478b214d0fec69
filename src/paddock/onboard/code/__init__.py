"""Packages of the distribution, and trees with the code of agents."""
