# Library: give the files of the agent's home to the agent.
# Expects: $HOME_DIR, $OWNER (USER:GROUP), $list, which names the entries that stay root's.
tab=$(printf '\t')

# Never follow a link: the agent can replace an entry between find and chown. Files with several hard links and mount
# points keep their owner, because they may be outside the home.
repair_ownership() {
    set -- "$HOME_DIR" -xdev
    while read -r _ _ _ _ mounted _; do
        case "$mounted" in "$HOME_DIR"/*) set -- "$@" ! -path "$mounted" ;; esac
    done </proc/self/mountinfo
    while IFS=$tab read -r verb _ path; do
        case "$verb $path" in
            "hold .") set -- "$@" ! -path "$HOME_DIR" ;;
            hold\ * | lock\ *) set -- "$@" ! -path "$HOME_DIR/$path" ;;
        esac
    done <"$list"
    find "$@" ! -user "${OWNER%:*}" \( -type d -o -links 1 \) -execdir chown -h "$OWNER" -- {} +
}
