for unit in "${units:=/etc/systemd/system}/paddock-$agent-"*.service; do
    [ ! -L "$unit" ] || echo "unit.${unit##*/}=$(systemctl is-active "${unit##*/}")"
done
[ ! -e "$root/relaxed.conf" ] ||
    echo "note=this machine cannot give all confinement; dropped: $(sed -n 's/=.*//p' "$root/relaxed.conf" | paste -sd ' ')"
