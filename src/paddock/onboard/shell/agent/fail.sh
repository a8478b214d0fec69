# Library: end the script with a message.
# Expects: nothing.

fail() { # CODE MESSAGE
    printf '%s\n' "$2" >&2 # the echo of some shells expands backslashes, and an agent may have chosen the text
    exit "$1"
}
