# Library: report containers of the agent in engines that its file no longer names.
# Expects: $agent; $ENGINE where the file names an engine.
. ./report.sh
. ./engine/layer.sh

# An engine that is not running is not started for this.
observe_left_containers() {
    for other in docker podman; do
        if [ "$other" = "${ENGINE-}" ] || ! command -v "$other" >/dev/null; then continue; fi
        case "$other" in
            docker) systemctl is-active --quiet docker || continue ;;
            podman) [ "$(id -u)" = 0 ] || [ -d "$HOME/.local/share/containers" ] || continue ;;
        esac
        found=$("$other" container inspect --format '{{index .Config.Labels "paddock.identity"}}' "paddock-$agent" 2>/dev/null)
        [ -n "$found" ] || continue
        report left "$other"
        layer "$other" "paddock-$agent" | report_lines "left.$other"
    done
}
