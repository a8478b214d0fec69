# Shared by state.sh on the machine and a container's start: what of the agent's home is another's becomes its own,
# but for what the list says is root's. Uses $HOME_DIR, $OWNER (USER:GROUP) and $list.
tab=$(printf '\t')

# Never through a link: an entry may change between being found and being given away. A second name of a file from
# outside, or something mounted here, is no reason to give that away.
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
