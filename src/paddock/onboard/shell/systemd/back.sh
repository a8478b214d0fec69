# systemd/back.sh - give the agent the configuration, the secrets and the container again that it was last verified with
#
# Arguments: MANAGER ROOT; MANAGER is "system" or "user"
# Environment: perhaps DISTRIBUTION, the package that brings the code
#
# The agent is restarted. It has the code tree of that configuration, which is still on the machine.
set -eu
umask 077
manager=$1 root=$2 formers=''
. ./systemd/bundle.sh
. ./engine/own.sh

# The configuration may have been moved to another engine, or to none. An engine that does not run has no container of the
# new configuration.
put_back_containers() {
    for any in docker podman; do
        if ! command -v "$any" >/dev/null || ! "$any" ps --quiet >/dev/null 2>&1; then continue; fi
        if [ "$any" = "${ENGINE-}" ]; then
            ! is_ours "$any" "paddock-$AGENT.before" "$AGENT" || stop_container_unit
            put_back "$any" "paddock-$AGENT" "$AGENT"
        elif is_ours "$any" "paddock-$AGENT" "$AGENT"; then
            stop_container_unit
            drop_container "$any" "paddock-$AGENT" "$AGENT"
        fi
    done
}

EGRESS=
receive_verified
put_back_containers
switch_to_received
