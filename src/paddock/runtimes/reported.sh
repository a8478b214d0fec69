# The end of a script that reports: without this record, something is missing.
report end ok
