"""What each verb does. The modules of ``cli`` parse and print; these do the work."""
