# Library: the lock that lets one run at a time configure or remove an agent on this machine.
# Expects: $root, a directory.

# The locks on operators' machines do not suffice: two operators may run Paddock at the same time, or one operator may reach
# this machine under two addresses.
lock_agent() {
    exec 8<"$root"
    if ! flock --nonblock 8; then
        echo "another run is configuring or removing this agent; wait until that run has ended" >&2
        exit 75
    fi
}
