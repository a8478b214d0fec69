# Library: the lock that lets one run at a time configure or remove an agent on this machine.
# Expects: $root, a directory.

# The locks of operators' machines do not suffice: two runs may come from two of them, or use two addresses of this one.
lock_agent() {
    exec 8<"$root"
    if ! flock --nonblock 8; then
        echo "another run is configuring or removing this agent; wait until that run has ended" >&2
        exit 75
    fi
}
