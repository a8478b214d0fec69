# Library: write a report to stdout. channels/__init__.py reads it.
# Expects: nothing. The script ends with `report end ok`; without that record the report is incomplete.

# A record is NAME=VALUE and ends with a NUL byte. No shell variable can hold a NUL byte, so no value can begin another
# record, whoever chose the value.
report() { # NAME VALUE
    printf '%s=%.2000s\0' "$1" "$2" >&3
}

# Report each line of stdin as one record. The limit is as much as a person would read.
report_lines() { # NAME
    head -n 500 | while IFS= read -r line; do report "$1" "$line"; done
}

# Descriptor 3 is the report. Other output goes to stderr.
exec 3>&1 1>&2
printf '\0' >&3
report report 1
