# Shared: containers that Paddock made, which bear its label. One without it is somebody else's, whatever its name.
is_ours() { # ENGINE CONTAINER
    [ -n "$("$1" container inspect --format '{{index .Config.Labels "paddock.identity"}}' "$2" 2>/dev/null)" ]
}

drop_container() { # ENGINE CONTAINER
    ! is_ours "$1" "$2" || "$1" rm --force --volumes "$2" >/dev/null
}
