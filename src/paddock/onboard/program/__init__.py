"""The program on the machine: how it is loaded, how it is asked, and what all of its parts use."""
