# Shared: one run at a time configures or removes an agent on a machine. The locks of operators' machines are no help: two
# runs may come from two of them, or through two addresses of this one.
be_alone() { # uses $root, which has to be there
    exec 8<"$root"
    if ! flock --nonblock 8; then
        echo "another run is at work on this agent; wait for it to end" >&2
        exit 75
    fi
}
