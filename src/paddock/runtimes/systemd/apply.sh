# apply.sh ROOT ID: puts the bundle from stdin in force and starts or restarts what changed.
root=$1 id=$2
receive
prepare
[ -z "$TREE" ] || keep_version "$TREE"
put_in_force

units=/etc/systemd/system
for link in "$units/paddock-$AGENT-"*.service; do
    [ -L "$link" ] || continue
    case " $LEASE $UNITS " in
        *" ${link##*/} "*) ;;
        *) systemctl stop "${link##*/}" && rm "$link" ;;
    esac
done
mkdir -p "$units/multi-user.target.wants"
for unit in $LEASE $UNITS; do
    ln -sf "$root/current/units/$unit" "$units/$unit"
done
ln -sf "$root/current/units/$LEASE" "$units/multi-user.target.wants/$LEASE"
systemctl daemon-reload

running=$(systemctl is-active $UNITS | grep -cx active || true)
# The lease is started and never restarted: a new configuration is no reason to let go of the state.
if ! systemctl start "$LEASE" 2>/dev/null; then
    fail 75 "$(journalctl -q -u "$LEASE" -o cat -n 20 | grep '^paddock: ' | tail -n 1)"
fi
# What did not run has just been started by its lease; starting it again here waits for that.
verb=start
[ -z "$changed" ] || [ "$running" = 0 ] || verb=restart
if ! systemctl $verb $UNITS 2>/dev/null; then
    fail 1 "$(for unit in $UNITS; do journalctl -q -u "$unit" -o cat -n 10; done)"
fi
