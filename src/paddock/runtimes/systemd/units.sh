# Shared: the units of the agent on this machine. They are the links that lead into its own folder: names alone would not
# tell, because one agent's name can be the beginning of another's. Uses $root and $units.
own_units() {
    for link in "$units"/paddock-*.service; do
        [ "$(readlink "$link")" != "$root/current/units/${link##*/}" ] || echo "${link##*/}"
    done
}

stop_container_unit() {
    for unit in $(own_units); do
        case "$unit" in *[.-]container.service) systemctl stop "$unit" ;; esac
    done
}

drop_unit() { # UNIT; uses $target too
    rm -rf "${units:?}/$1" "$units/$1.d" "$units/$target.wants/$1"
}
