# apply.sh ROOT ID: puts the bundle from stdin in force and starts or restarts what changed.
root=$1 id=$2
: "${units:=/etc/systemd/system}" "${passing_units:=/run/systemd/system}" "${target:=multi-user.target}"
: "${programs:=/usr/local/bin}"

# A container of before, where the agent comes to another engine or out of them all, is stopped by the configuration that
# it was started with: the next one would look for it elsewhere, and two would write to one state.
stop_other_container() {
    [ -e "$root/current/halt" ] || return 0
    [ "$(. "$root/current/bundle.env" && echo "$ENGINE")" != "${ENGINE-}" ] || return 0
    stop_container_unit
    sh "$root/current/halt" || fail 75 "the container that $AGENT ran in so far does not stop"
}

receive
check_programs
prepare
[ -z "$TREE" ] || keep_version "$TREE"
stop_other_container
put_in_force
link_programs

for unit in $(own_units); do
    case " $LEASE $UNITS " in
        *" $unit "*) ;;
        *)
            systemctl stop "$unit"
            drop_unit "$unit"
            ;;
    esac
done
mkdir -p "$units/$target.wants"
for unit in $LEASE $UNITS; do
    ln -sf "$root/current/units/$unit" "$units/$unit"
done
ln -sf "$root/current/units/$LEASE" "$units/$target.wants/$LEASE"
link_relaxed
systemctl daemon-reload

# Whether the lease was started by an earlier Paddock: systemd does not keep its lock when its process dies. It is
# restarted once, while the agent is stopped, which has to be restarted anyway.
unkept_lease() {
    [ -n "$changed" ] && systemctl is-active --quiet "$LEASE" &&
        [ "$(systemctl show --property NFileDescriptorStore --value "$LEASE")" = 0 ]
}

bring_up() {
    running=$(systemctl is-active $UNITS | grep -cx active || true)
    systemctl reset-failed $UNITS 2>/dev/null || true # restarts of what was before are no business of what comes
    # The lease is started and never restarted: a new configuration is no reason to let go of the state.
    if unkept_lease; then
        systemctl restart "$LEASE" 2>/dev/null || return
        running=0
    fi
    systemctl start "$LEASE" 2>/dev/null || return
    # What did not run has just been started by its lease; starting it again here waits for that.
    verb=start
    [ -z "$changed" ] || [ "$running" = 0 ] || verb=restart
    systemctl $verb $UNITS 2>/dev/null
}

give_up() {
    systemctl is-active --quiet "$LEASE" ||
        fail 75 "$(journalctl -q -u "$LEASE" -o cat -n 20 | grep '^paddock: ' | tail -n 1)"
    fail 1 "$(for unit in $UNITS; do journalctl -q -u "$unit" -o cat -n 10; done)"
}

if ! bring_up; then
    refused_confinement || give_up
    relax
    link_relaxed
    systemctl daemon-reload
    bring_up || give_up
fi
rm -f "$root/pending"
