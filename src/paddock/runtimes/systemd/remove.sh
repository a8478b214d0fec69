# remove.sh ROOT CODE AGENT: takes the agent's units, configuration and code away. The state stays.
set -eu
root=$1 code=$2 agent=$3
units=/etc/systemd/system
for link in "$units/paddock-$agent-"*.service; do
    [ ! -L "$link" ] || systemctl stop "${link##*/}"
done
rm -f "$units/paddock-$agent-"*.service "$units/multi-user.target.wants/paddock-$agent-"*.service
systemctl daemon-reload
rm -rf "$root"
# Code trees are shared: one goes when no agent's configuration names it any more.
for tree in "$code"/*; do
    grep -qsF "$tree" /etc/paddock/*/*/units/*.service || rm -rf "$tree"
done
rmdir -p "$code" 2>/dev/null || true
