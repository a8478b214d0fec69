# agents.sh - report the agents on this machine
#
# Arguments: MANAGER ROOT STATE_LINK AGENT; the paths of one agent show where those of all agents are. MANAGER is "system",
# "user", or empty for agents that no systemd supervises
# Output: a report: agent=ID, active=ID, state=ID PATH
#
# The folders belong to root, or without root to the account. The script reads names and links only.
set -eu
manager=$1 root=$2 state_link=$3 agent=$4
. ./agent/report.sh
[ -z "$manager" ] || . ./systemd/manager.sh

is_active() { # ID
    [ -n "$manager" ] && [ -n "$(systemctl list-units --plain --no-legend --state=active "paddock-$1.*" 2>/dev/null)" ]
}

case "$root" in
    */"$agent"/etc) set -- "${root%/"$agent"/etc}"/*/etc/current ;;
    *) set -- "${root%/*}"/*/current ;;
esac
for found; do
    [ -L "$found" ] || continue
    found=${found%/current} && found=${found%/etc} && found=${found##*/}
    report agent "$found"
    ! is_active "$found" || report active "$found"
done
for link in "${state_link%/*}"/*; do
    [ ! -L "$link" ] || report state "${link##*/} $(readlink "$link")"
done
report end ok
