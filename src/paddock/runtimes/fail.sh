# Library: end the script with a message.
# Expects: nothing.

fail() { # CODE MESSAGE
    echo "$2" >&2
    exit "$1"
}
