# engine/observe.sh - report the same as systemd/observe.sh, and the engine, image and container of an agent
#
# Arguments: MANAGER ROOT STORE STATE_LINK STATE AGENT FORMERS PACKAGE...; MANAGER is "system" or "user"; FORMERS
# are ids, separated by blanks
# Environment: ENGINE, CONTAINER, IMAGE; PACKAGES of the engine; INFO, a format for `ENGINE info`
# Output: a report
manager=$1 root=$2 store=$3 state_link=$4 state=$5 agent=$6 formers=$7
shift 7
. ./agent/report.sh
. ./agent/observation.sh
. ./systemd/observation.sh
. ./image/layer.sh
. ./image/layered.sh
. ./engine/left.sh

has_users() { # without root. Podman itself would go on with a single user.
    command -v newuidmap >/dev/null && { getsubids "$(id -un)" || grep "^$(id -un):" /etc/subuid; } >/dev/null 2>&1
}

observe_agent "$@"
observe_units
observe_left_containers
if command -v "$ENGINE" >/dev/null; then
    for package in $PACKAGES; do report package "$package"; done # another package may have installed the engine
fi
if ! command -v "$ENGINE" >/dev/null; then
    report engine missing
elif [ "$(id -u)" != 0 ] && ! has_users; then
    report engine "down: the account $(id -un) has no newuidmap, or no range of users of its own in /etc/subuid"
elif ! said=$("$ENGINE" ps --quiet 2>&1 >/dev/null); then
    report engine "down: $(echo "$said" | tail -n 1 | sed 's/.* msg="\(.*\)"$/\1/')"
else
    report engine up
    report info "$("$ENGINE" info --format "$INFO" 2>/dev/null)"
    present=$(image_id "$IMAGE")
    [ -z "$present" ] || report image "$IMAGE"
    if find_container "$ENGINE"; then
        report container "$(label "$ENGINE" "$found" paddock.identity)"
        layer "$ENGINE" "$found" | report_lines layer
        runs=$(container_image "$found")
        ! is_made_from "$runs" "$present" || present=$runs # the same image, perhaps with a layer on it
        # Its successor exists already, and the configuration is still the one from before.
        if [ -e "$root/answered" ] && is_ours "$ENGINE" "$CONTAINER.before" "$agent"; then
            report before "$(cat "$root/answered")"
        fi
        report image.runs "$(described_image "$runs")"
        before=$(image_before "$root" "$runs")
        [ -z "$before" ] || report image.before "$(described_image "$before")"
    elif "$ENGINE" container inspect "$CONTAINER" >/dev/null 2>&1; then
        report container foreign
    fi
    [ -z "$present" ] || report image.present "$(described_image "$present")"
fi
report end ok
