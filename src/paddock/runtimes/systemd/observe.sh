ails() { # UNIT: failed for good, or was tried again, or is about to be
    systemctl show --property SubState,NRestarts "$1" | grep -qx 'SubState=\(failed\|auto-restart\)\|NRestarts=[1-9].*'
}
for unit in "${units:=/etc/systemd/system}/paddock-$agent-"*.service; do
    [ ! -L "$unit" ] || echo "unit.${unit##*/}=$(systemctl is-active "${unit##*/}")"
    # What it has said last, to Paddock or about a mistake.
    [ ! -L "$unit" ] || ! ails "${unit##*/}" ||
        journalctl -q -u "${unit##*/}" -o cat -n 30 | sed -n 's/^paddock: /said=/p; s/^.*error/said=&/Ip' | tail -n 1
done
[ ! -e "$root/relaxed.conf" ] ||
    echo "note=this machine cannot give all confinement; dropped: $(sed -n 's/=.*//p' "$root/relaxed.conf" | paste -sd ' ')"
