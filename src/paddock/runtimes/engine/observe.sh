# After the shared parts: the engine, the image and the container. Uses $ENGINE, $INFO, $IMAGE and $CONTAINER.
if command -v "$ENGINE" >/dev/null; then
    for package; do report package "$package"; done # whichever package has brought it
fi
has_users() { # without root; asked for before the engine is, which would go on with one user alone
    command -v newuidmap >/dev/null && { getsubids "$(id -un)" || grep "^$(id -un):" /etc/subuid; } >/dev/null 2>&1
}
if ! command -v "$ENGINE" >/dev/null; then
    report engine missing
elif [ "$(id -u)" != 0 ] && ! has_users; then
    report engine "down: the account $(id -un) has no newuidmap, or no range of users of its own in /etc/subuid"
elif ! said=$("$ENGINE" ps --quiet 2>&1 >/dev/null); then
    report engine "down: $(echo "$said" | tail -n 1 | sed 's/.* msg="\(.*\)"$/\1/')"
else
    report engine up
    report info "$("$ENGINE" info --format "$INFO" 2>/dev/null)"
    ! "$ENGINE" image inspect "$IMAGE" >/dev/null 2>&1 || report image "$IMAGE"
    if found=$("$ENGINE" container inspect --format '{{index .Config.Labels "paddock.identity"}}' "$CONTAINER" 2>/dev/null); then
        report container "${found:-foreign}"
        layer "$ENGINE" "$CONTAINER" | report_lines layer
    fi
fi
