# remove.sh ROOT STORE AGENT: takes the agent's units, configuration and code away. The state stays.
set -eu
root=$1 STORE=$2 AGENT=$3
: "${units:=/etc/systemd/system}" "${target:=multi-user.target}" "${programs:=/usr/local/bin}"
spare_states "$root" "${STORE%/*}/$AGENT" # before anything is stopped; and again right before it is deleted
for link in "$units/paddock-$AGENT-"*.service; do
    [ ! -L "$link" ] || systemctl stop "${link##*/}"
done
rm -rf "$units/paddock-$AGENT-"*.service "$units/paddock-$AGENT-"*.service.d "$units/$target.wants/paddock-$AGENT-"*.service
systemctl daemon-reload
drop_programs
spare_states "$root"
rm -rf --one-file-system "$root"
drop_versions
