for unit in "/etc/systemd/system/paddock-$agent-"*.service; do
    [ ! -L "$unit" ] || echo "unit.${unit##*/}=$(systemctl is-active "${unit##*/}")"
    # What it has said last, to Paddock or about a mistake.
    [ ! -L "$unit" ] || ! systemctl is-failed --quiet "${unit##*/}" ||
        journalctl -q -u "${unit##*/}" -o cat -n 30 | sed -n 's/^paddock: /said=/p; s/^.*error/said=&/Ip' | tail -n 1
done
