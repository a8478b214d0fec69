# remove.sh ROOT STORE AGENT: takes the agent's units, configuration and code away. The state stays.
set -eu
root=$1 STORE=$2 AGENT=$3
units=/etc/systemd/system
for link in "$units/paddock-$AGENT-"*.service; do
    [ ! -L "$link" ] || systemctl stop "${link##*/}"
done
rm -f "$units/paddock-$AGENT-"*.service "$units/multi-user.target.wants/paddock-$AGENT-"*.service
systemctl daemon-reload
rm -rf "$root"
drop_versions
