"""Runtimes: they render a workload as files, and name the scripts that apply the files on the machine. Pure."""
