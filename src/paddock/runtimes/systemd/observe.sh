ails() { # UNIT: failed for good, or was tried again, or is about to be
    systemctl show --property SubState,NRestarts "$1" | grep -qx 'SubState=\(failed\|auto-restart\)\|NRestarts=[1-9].*'
}
: "${units:=/etc/systemd/system}"
for unit in $(own_units); do
    report unit "$unit $(systemctl is-active "$unit")"
    # The last thing it wrote to Paddock, or about a mistake.
    ! ails "$unit" || report said "$(journalctl -q -u "$unit" -o cat -n 30 |
        sed -n -e 's/^paddock: //p' -e t -e '/error/Ip' | tail -n 1 | cut -b 1-500)"
done
[ ! -e "$root/relaxed.conf" ] ||
    report note "this machine cannot give all confinement; dropped: $(sed -n 's/=.*//p' "$root/relaxed.conf" | paste -sd ' ')"
