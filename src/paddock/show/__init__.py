"""The output and the records of a run: progress, journal, tables and timings."""
