# Library: the units of the agent on this machine.
# Expects: $root, $units, $target, $manager.

# The agent's units are the links into its own folder. The names of units do not suffice: the name of one agent can be the
# beginning of another's.
own_units() {
    units_of "$root"
}

units_of() { # ROOT, of any agent
    for link in "$units"/paddock-*.service; do
        [ "$(readlink "$link")" != "$1/current/units/${link##*/}" ] || echo "${link##*/}"
    done
}

stop_container_unit() {
    for unit in $(own_units); do
        case "$unit" in *[.-]container.service) systemctl stop "$unit" ;; esac
    done
}

# Remove the rules for the agent's connections. No process of the agent may run.
drop_table() { # AGENT
    [ "$manager" = system ] && command -v nft >/dev/null || return 0
    ! nft list table inet "paddock-$1" >/dev/null 2>&1 || nft delete table inet "paddock-$1"
}

drop_unit() { # UNIT
    rm -rf "${units:?}/$1" "$units/$1.d" "$units/$target.wants/$1"
}
