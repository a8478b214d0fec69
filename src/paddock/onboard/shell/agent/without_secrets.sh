# Library: start a program of an agent without the environment of the person or of root, which may hold secrets.
# Expects: nothing.

# Become a program that inherits only variables without secrets.
without_secrets() { # PROGRAM [ARGUMENT...]
    for name in XDG_RUNTIME_DIR TMPDIR TZ LANG TERM LOGNAME USER HOME PATH; do
        eval "[ -z \"\${$name+set}\" ]" || eval "set -- \"$name=\$$name\" \"\$@\""
    done
    exec env -i "$@"
}
