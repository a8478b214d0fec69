# Library: limit what the agent's units use of a host, which others use too.
# Expects: $root, $units, $UNITS, $MOUNTED, $ENGINE of a container.

# A machine that was made for the agent has limits of its own, and so has a container.
have_limits() {
    [ -z "$MOUNTED" ] && [ -z "${ENGINE-}" ]
}

# A fifth of the memory is left to the host. Where units compete, the agent's come second. The bundle has what the file
# says; the last line of a name counts.
write_limits() {
    {
        printf '[Service]\nMemoryMax=80%%\nTasksMax=4096\nCPUWeight=50\nIOWeight=50\n'
        [ ! -e "$root/current/limits" ] || cat "$root/current/limits"
    } >"$root/limits.conf"
    chmod 644 "$root/limits.conf"
}

link_limits() {
    if ! have_limits; then
        rm -f "$root/limits.conf"
        return
    fi
    write_limits
    # shellcheck disable=SC2153 # bundle.env sets it
    for unit in $UNITS; do
        mkdir -p "$units/$unit.d"
        ln -sf "$root/limits.conf" "$units/$unit.d/paddock-limits.conf"
    done
}
