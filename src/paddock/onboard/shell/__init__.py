"""The shell scripts that machines run, and their libraries."""
