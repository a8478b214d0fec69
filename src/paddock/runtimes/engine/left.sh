# After layer.sh: containers of the agent in engines that its file does not name any more. An engine that nobody uses is
# not woken for this. Uses $agent, and $ENGINE where the file names one.
for other in docker podman; do
    [ "$other" != "${ENGINE-}" ] && command -v "$other" >/dev/null || continue
    case "$other" in
        docker) systemctl is-active --quiet docker || continue ;;
        podman) [ "$(id -u)" = 0 ] || [ -d "$HOME/.local/share/containers" ] || continue ;;
    esac
    found=$("$other" container inspect --format '{{index .Config.Labels "paddock.identity"}}' "paddock-$agent" 2>/dev/null)
    [ -n "$found" ] || continue
    report left "$other"
    layer "$other" "paddock-$agent" | report_lines "left.$other"
done
