# remove.sh ROOT STORE AGENT: takes the agent's units, configuration and code away. The state stays.
set -eu
root=$1 STORE=$2 AGENT=$3
: "${units:=/etc/systemd/system}" "${target:=multi-user.target}" "${programs:=/usr/local/bin}"
[ ! -d "$root" ] || be_alone
spare_states "$root" "${STORE%/*}/$AGENT" # before anything is stopped; and again right before it is deleted
for unit in $(own_units); do
    systemctl stop "$unit"
done
for unit in $(own_units); do
    drop_unit "$unit"
done
systemctl daemon-reload
drop_programs
spare_states "$root"
rm -rf --one-file-system "$root"
drop_versions
