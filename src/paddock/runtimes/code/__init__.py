"""The code of agents: built on the computer that runs Paddock, installed on machines."""
