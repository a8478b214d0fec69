"""The work of each verb. The modules of ``cli`` parse and print; these do the work."""
