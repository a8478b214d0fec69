"""The machine of an agent: its plan, how it is reached, and the checks of it."""
