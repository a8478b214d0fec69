# Library: drop the confinement of units that the machine does not support, directive by directive, and name each.
# Expects: $root, $units, $passing_units, $LEASE, $EGRESS, $UNITS.

# Whether systemd could not set up a unit: users (exit code 217), capabilities (218), namespaces (226), new privileges
# (227), system calls (228, 232) or personality (230).
refused_confinement() {
    # shellcheck disable=SC2153 # bundle.env sets UNITS
    for unit in $LEASE $EGRESS $UNITS; do
        case "$(systemctl show --property ExecMainStatus --value "$unit")" in
            21[78] | 22[678] | 23[02]) return 0 ;;
        esac
    done
    return 1
}

supports() { # LINES REMOUNTS
    mkdir -p "$passing_units"
    trial=:
    [ "$2" != remounts ] ||
        trial="[ $(readlink /proc/self/ns/mnt) != \$\$($(command -v readlink) /proc/self/ns/mnt) ]"
    # Programs by their paths: not every systemd looks for them where this shell does.
    printf '[Service]\nType=oneshot\nExecStart=%s -c "%s"\n%s' "$(command -v sh)" "$trial" "$1" \
        >"$passing_units/paddock-trial.service"
    systemctl daemon-reload
    systemctl start paddock-trial.service 2>/dev/null
}

# Write a drop-in for all units of the agent that resets the unsupported directives. The drop-in stays as long as the
# agent is installed: the lease is not restarted with a new bundle, and must start at the next boot.
relax() {
    tab=$(printf '\t')
    # shellcheck disable=SC2086 # several units
    systemctl stop $LEASE $EGRESS $UNITS
    supported=
    echo '[Service]' >"$root/relaxed.conf"
    while IFS=$tab read -r line off remounts; do
        tried="$supported$line
"
        if supports "$tried" "$remounts"; then
            supported=$tried
        else
            printf '%s\n' "$off" >>"$root/relaxed.conf"
            echo "this machine does not support $line; Paddock drops that line"
        fi
    done <"$root/current/confinement"
    rm -f "$passing_units/paddock-trial.service"
    chmod 644 "$root/relaxed.conf"
}

link_relaxed() {
    [ -e "$root/relaxed.conf" ] || return 0
    for unit in $LEASE $EGRESS $UNITS; do
        mkdir -p "$units/$unit.d"
        ln -sf "$root/relaxed.conf" "$units/$unit.d/paddock-relaxed.conf"
    done
}
