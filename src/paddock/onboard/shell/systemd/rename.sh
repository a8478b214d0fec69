# systemd/rename.sh - give an agent another id: its units, containers, configuration and code links, and its state's mark
#
# Arguments: MANAGER ROOT STORE STATE_LINK STATE AGENT FORMER MOUNTED; MANAGER is "system" or "user"; MOUNTED is not empty
# if the state must be a mounted volume
#
# The agent is stopped, and its units are removed. Applying a bundle creates them again. No file of the agent moves.
set -eu
umask 077
manager=$1 root=$2 STORE=$3 state_link=$4 state=$5 agent=$6 former=$7 MOUNTED=$8
. ./agent/renaming.sh
. ./systemd/manager.sh
. ./systemd/programs.sh
. ./systemd/units.sh
. ./engine/own.sh

# An engine that does not run hides the container, which would keep its name.
expect_engine() {
    [ -e "$former_root/current/bundle.env" ] || return 0
    # shellcheck source=/dev/null # written by Paddock, in the bundle
    engine=$(ENGINE='' && . "$former_root/current/bundle.env" && echo "${ENGINE-}")
    if [ -n "$engine" ] && command -v "$engine" >/dev/null; then
        "$engine" ps --quiet >/dev/null # this fails with the engine's own message
    fi
}

stop_former() {
    for unit in $(units_of "$former_root"); do
        systemctl stop "$unit"
    done
    [ ! -e "$former_root/current/halt" ] || sh "$former_root/current/halt" || fail 75 "the container of $former does not stop"
}

drop_former_units() {
    for unit in $(units_of "$former_root"); do
        drop_unit "$unit"
    done
    drop_table "$former"
    systemctl daemon-reload
    (root=$former_root && drop_programs)
    keys=/root/.ssh/authorized_keys2
    [ "$(readlink "$keys" 2>/dev/null)" != "$former_root/current/people" ] || ln -sfn "$root/current/people" "$keys"
}

# A container keeps its layer until its successor exists: applying a bundle recreates it.
rename_containers() {
    for engine in docker podman; do
        command -v "$engine" >/dev/null || continue
        drop_container "$engine" "paddock-$former.before" "$former"
        ! is_ours "$engine" "paddock-$former" "$former" || "$engine" rename "paddock-$former" "paddock-$agent"
    done
}

begin_rename
expect_engine
stop_former
rename_state
drop_former_units
rename_code
rename_containers
rename_configuration
