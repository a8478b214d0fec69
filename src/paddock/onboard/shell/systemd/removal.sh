# Library: remove the agent's units, configuration and code, and keep the state.
# Expects: set -eu; $manager, $root, $STORE, $AGENT.
. ./state/lock.sh
. ./code/versions.sh
. ./systemd/closing.sh
. ./systemd/manager.sh
. ./systemd/programs.sh
. ./systemd/units.sh

remove_agent() {
    [ ! -d "$root" ] || lock_agent
    expect_no_state "$root" "${STORE%/*}/$AGENT" # before a unit is stopped, and again right before the folder is deleted
    for unit in $(own_units); do
        systemctl stop "$unit"
    done
    for unit in $(own_units); do
        drop_unit "$unit"
    done
    drop_table "$AGENT"
    systemctl daemon-reload
    [ "$manager" != system ] || close_account_of_bundle # it stays on the machine, with its home in the state
    drop_programs
    expect_no_state "$root"
    rm -rf --one-file-system "$root"
    drop_versions
}
