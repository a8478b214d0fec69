# Library: containers that Paddock made.
# Expects: nothing.

label() { # ENGINE CONTAINER LABEL
    "$1" container inspect --format "{{index .Config.Labels \"$3\"}}" "$2" 2>/dev/null
}

# A container belongs to the agent that its label names. Those of Paddock 0.1 do not name one, and are known by their names.
# A container without Paddock's labels belongs to someone else, whatever its name. A label cannot change, so the container of
# a renamed agent has a former id until it has a successor.
is_ours() { # ENGINE CONTAINER ID...
    [ -n "$(label "$1" "$2" paddock.identity)" ] && whose=$(label "$1" "$2" paddock.agent) || return 1
    shift 2
    [ -n "$whose" ] || return 0
    case " $* " in *" $whose "*) ;; *) return 1 ;; esac
}

# The container that a new one replaces is kept as CONTAINER.before until the agent was verified with the new one. It has
# the software that was installed in it. No id has a dot.
keep_former() { # ENGINE CONTAINER ID; the container is stopped
    if is_ours "$1" "$2.before" "$3"; then
        drop_container "$1" "$2" "$3"
    elif is_ours "$1" "$2" "$3"; then
        "$1" rename "$2" "$2.before"
    fi
}

put_back() { # ENGINE CONTAINER ID; the container is stopped
    is_ours "$1" "$2.before" "$3" || return 0
    drop_container "$1" "$2" "$3"
    "$1" rename "$2.before" "$2"
}

drop_container() { # ENGINE CONTAINER ID
    ! is_ours "$1" "$2" "$3" || "$1" rm --force --volumes "$2" >/dev/null
}
