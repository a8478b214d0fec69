# Library: apply a bundle, and start or restart the units that it changes.
# Expects: set -eu; umask 077; $manager, $root, $id; stdin, a tar of bundle/, secrets.env and secret-files/.
. ./agent/receive.sh
. ./code/versions.sh
. ./systemd/limits.sh
. ./systemd/manager.sh
. ./systemd/prepare.sh
. ./systemd/programs.sh
. ./systemd/relax.sh
. ./systemd/units.sh

apply_bundle() {
    EGRESS= # a bundle that does not limit connections does not set it
    receive
    switch_to_received
}

switch_to_received() {
    check_programs
    prepare
    [ -z "$TREE" ] || keep_version "$TREE"
    stop_other_container
    make_current
    link_programs
    link_units
    if ! bring_up; then
        refused_confinement || give_up
        relax
        link_relaxed
        systemctl daemon-reload
        bring_up || give_up
    fi
    rm -f "$root/pending"
}

# When the agent moves to another engine, or to none, the old bundle stops its container. The new bundle would look for the
# container in another engine, and two containers would write to one state.
stop_other_container() {
    [ -e "$root/current/halt" ] || return 0
    # shellcheck source=/dev/null # written by Paddock, in the bundle
    [ "$(. "$root/current/bundle.env" && echo "$ENGINE")" != "${ENGINE-}" ] || return 0
    stop_container_unit
    sh "$root/current/halt" || fail 75 "the previous container of $(name_of "$AGENT") does not stop"
}

link_units() {
    linked=$(own_units)
    for unit in $linked; do
        case " $LEASE $EGRESS $UNITS " in
            *" $unit "*) ;;
            *)
                systemctl stop "$unit"
                drop_unit "$unit"
                ;;
        esac
    done
    # Without its unit the agent has stopped too.
    [ -n "$EGRESS" ] || drop_table "$AGENT"
    mkdir -p "$units/$target.wants"
    for unit in $LEASE $EGRESS $UNITS; do
        ln -sf "$root/current/units/$unit" "$units/$unit"
    done
    ln -sf "$root/current/units/$LEASE" "$units/$target.wants/$LEASE"
    link_relaxed
    link_limits
    if [ -n "$linked" ] || ! are_loaded; then systemctl daemon-reload; fi
}

# Whether systemd has read the units as they are on disk. It reads new units by itself, and a reload takes a tenth of a
# second and more. It does not notice that a link leads to another bundle, so this is for new units only.
are_loaded() {
    # shellcheck disable=SC2086 # $UNITS are several units, and $EGRESS may be none
    shown=$(systemctl show --property LoadState,NeedDaemonReload $LEASE $EGRESS $UNITS) || return
    [ -n "$shown" ] && ! printf '%s\n' "$shown" | grep -qvxE 'LoadState=loaded|NeedDaemonReload=no|'
}

# Whether an earlier Paddock started the lease: then systemd does not keep the lock when its process dies. Such a lease is
# restarted once, while the agent is stopped for a restart anyway.
unkept_lease() {
    [ -n "$changed" ] && systemctl is-active --quiet "$LEASE" &&
        [ "$(systemctl show --property NFileDescriptorStore --value "$LEASE")" = 0 ]
}

# shellcheck disable=SC2086 # $UNITS are several units, and $EGRESS may be none
bring_up() {
    running=$(systemctl is-active $UNITS | grep -cx active || true)
    systemctl reset-failed $EGRESS $UNITS 2>/dev/null || true # the restarts of the old bundle do not count for the new one
    # The lease is started and never restarted: a new bundle is no reason to release the state.
    if unkept_lease; then
        systemctl restart "$LEASE" 2>/dev/null || return
        running=0
    fi
    systemctl start "$LEASE" 2>/dev/null || return
    # The lease has started the units that did not run. `start` waits for them.
    verb=start
    [ -z "$changed" ] || [ "$running" = 0 ] || verb=restart
    systemctl $verb $EGRESS $UNITS 2>/dev/null
}

give_up() {
    systemctl is-active --quiet "$LEASE" ||
        fail 75 "$(journalctl -q -u "$LEASE" -o cat -n 20 | grep '^paddock: ' | tail -n 1)"
    fail 1 "$(for unit in $EGRESS $UNITS; do journalctl -q -u "$unit" -o cat -n 10; done)"
}
