# remove.sh ROOT CODE AGENT: takes the agent's units, configuration and code away. The state stays.
set -eu
root=$1 code=$2 agent=$3
units=/etc/systemd/system
for link in "$units/paddock-$agent-"*.service; do
    [ ! -L "$link" ] || systemctl stop "${link##*/}"
done
rm -f "$units/paddock-$agent-"*.service "$units/multi-user.target.wants/paddock-$agent-"*.service
systemctl daemon-reload
rm -rf "$root" "$code"
