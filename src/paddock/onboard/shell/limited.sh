# Library: limits in a container: kinds of sockets, and no start where the rules for connections would have no effect.
# Expects: $here, the current bundle; $root; /proc of the container.

# The rules are for the agent's number of a user in the machine's network. The machine wrote down both in $root/namespaces.
check_limits() { # [confined]; with it, no process of the container may become root by starting a program
    [ -e "$here/egress.json" ] || return 0
    [ "$(readlink /proc/self/ns/net && cat /proc/self/uid_map)" = "$(cat "$root/namespaces")" ] ||
        has_no_effect "the container has another network or other users than the machine"
    [ -z "${1-}" ] || grep -q '^NoNewPrivs:[^0-9]*1$' /proc/self/status ||
        has_no_effect "programs in the container may become root"
}

# Set $families to the program that limits the kinds of sockets, if connections are limited.
find_families() {
    families=
    [ -e "$here/families.py" ] || return 0
    if python=$(command -v python3); then
        families="$python -I -S $here/families.py"
    else
        echo "paddock: without python3 in the container, only its engine limits the kinds of sockets" >&2
    fi
}

has_no_effect() { # REASON
    echo "paddock: egress would have no effect: $1" >&2
    exit 78
}
