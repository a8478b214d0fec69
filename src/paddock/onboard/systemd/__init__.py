"""The units and the account of an agent."""
