"""Carry plans out: connect the rooms, report progress, write the journal, read timings."""
