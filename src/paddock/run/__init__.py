"""Carrying a plan out: the wiring of the rooms, the journal, progress and timings."""
