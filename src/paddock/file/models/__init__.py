"""The models of the file, one module for each of its parts."""
