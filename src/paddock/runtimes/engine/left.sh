# Library: report containers of the agent in engines that its file no longer names.
# Expects: $agent; $ENGINE where the file names an engine.
. ./report.sh
. ./engine/layer.sh
. ./engine/own.sh

# An engine that is not running is not started for this.
observe_left_containers() {
    for other in docker podman; do
        if [ "$other" = "${ENGINE-}" ] || ! command -v "$other" >/dev/null; then continue; fi
        case "$other" in
            docker) systemctl is-active --quiet docker || continue ;;
            podman) [ "$(id -u)" = 0 ] || [ -d "$HOME/.local/share/containers" ] || continue ;;
        esac
        is_ours "$other" "paddock-$agent" "$agent" || continue
        report left "$other"
        layer "$other" "paddock-$agent" | report_lines "left.$other"
    done
}
