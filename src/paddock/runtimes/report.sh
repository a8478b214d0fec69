# Shared: how a script tells what it found. A record is NAME=VALUE and ends with a NUL byte. No shell variable can hold that
# byte, so no value, whoever chose it, begins another record. guests/report.py reads them; the last one says that none is
# missing.
report() { # NAME VALUE
    printf '%s=%.2000s\0' "$1" "$2" >&3
}

# Values from stdin, one a line; at most as many as a person would want to read.
report_lines() { # NAME
    head -n 500 | while IFS= read -r line; do report "$1" "$line"; done
}

# Whatever else a program prints is not part of the report.
exec 3>&1 1>&2
printf '\0' >&3
report report 1
