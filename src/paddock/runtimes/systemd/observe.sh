for unit in "/etc/systemd/system/paddock-$agent-"*.service; do
    [ ! -L "$unit" ] || echo "unit.${unit##*/}=$(systemctl is-active "${unit##*/}")"
done
