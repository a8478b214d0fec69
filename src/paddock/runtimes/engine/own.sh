# Library: containers that Paddock made.
# Expects: nothing.

# Paddock's containers have its label. A container without the label belongs to someone else, whatever its name.
is_ours() { # ENGINE CONTAINER
    [ -n "$("$1" container inspect --format '{{index .Config.Labels "paddock.identity"}}' "$2" 2>/dev/null)" ]
}

drop_container() { # ENGINE CONTAINER
    ! is_ours "$1" "$2" || "$1" rm --force --volumes "$2" >/dev/null
}
