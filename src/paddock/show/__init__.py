"""What a run shows and keeps: progress, journal, tables and timings."""
