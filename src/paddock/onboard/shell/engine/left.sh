# Library: report containers of the agent in engines that its file no longer names.
# Expects: $root, $agent, $formers; $ENGINE where the file names an engine.
. ./agent/report.sh
. ./image/layer.sh
. ./engine/own.sh

# An engine that is not running is not started for this.
observe_left_containers() {
    for other in docker podman; do
        if [ "$other" = "${ENGINE-}" ] || ! command -v "$other" >/dev/null; then continue; fi
        case "$other" in
            docker) systemctl is-active --quiet docker || continue ;;
            podman) [ "$(id -u)" = 0 ] || [ -d "$HOME/.local/share/containers" ] || continue ;;
        esac
        find_container "$other" || continue
        report left "$other"
        layer "$other" "$found" | report_lines "left.$other"
    done
}

# Find the agent's container, which may have the name of a former id: before the agent is renamed, and in an engine that
# did not run when it was.
# Sets: $found.
find_container() { # ENGINE
    for id in $agent $formers; do
        found=paddock-$id
        # shellcheck disable=SC2086 # several ids
        is_ours "$1" "$found" "$id" $formers || continue
        [ "$id" = "$agent" ] || [ -L "$root/current" ] || report former "$id"
        return 0
    done
    return 1
}
