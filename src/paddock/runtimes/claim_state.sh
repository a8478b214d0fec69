# Library: create the state of an agent, or accept the state that belongs to the agent already.
# Expects: set -eu; umask 077; $root, $AGENT, $STATE, $STORE, $STATE_LINK, $MOUNTED.
. ./fail.sh
. ./folders.sh
. ./identity.sh
. ./top.sh

# Only an empty directory becomes a state. A volume that is not mounted would look empty, so a mount is checked first.
claim_state() {
    check_state_path
    [ -z "$MOUNTED" ] || mountpoint -q "$STATE" || fail 78 "the state volume is not mounted at $STATE"
    expect_path_of_root "$STATE"
    (umask 022 && mkdir -p "${STATE%/*}" "${STATE_LINK%/*}")
    link_state
    mkdir -p "$STATE"
    take_top "$STATE"
    is_own "$STATE/.paddock" || [ ! -e "$STATE/.paddock" ] && [ ! -L "$STATE/.paddock" ] ||
        fail 78 "$STATE/.paddock is not a directory that only root can enter. If you restored it from a copy:\
 chown -R 0:0 $STATE/.paddock && chmod 700 $STATE/.paddock. Otherwise move it away."
    if [ -e "$STATE/.paddock/identity" ]; then
        grep -qx "agent=$AGENT" "$STATE/.paddock/identity" ||
            fail 78 "$STATE is the state of another agent ($(grep agent= "$STATE/.paddock/identity"))"
        return 0
    fi
    for found in "$STATE"/* "$STATE"/.[!.]*; do
        case "$found" in
            */lost+found | */.paddock) ;;
            *)
                [ ! -e "$found" ] ||
                    fail 78 "$STATE holds files but no mark of Paddock; \`paddock adopt $AGENT\` claims them"
                ;;
        esac
    done
    write_identity
}

# The link always leads to the state. Without this check, a file with another state.path would start an agent without
# memory.
link_state() {
    [ -e "$STATE_LINK" ] || rm -f "$STATE_LINK" # a dangling link: a person has moved the state
    [ "$STATE" != "$STATE_LINK" ] || [ -L "$STATE_LINK" ] || return 0
    [ "$STATE" != "$(readlink "$STATE_LINK")" ] || return 0
    [ ! -e "$STATE_LINK" ] || rmdir "$STATE_LINK" 2>/dev/null ||
        fail 78 "the state of $AGENT is $(readlink -f "$STATE_LINK"), not $STATE"
    [ "$STATE" = "$STATE_LINK" ] || ln -s "$STATE" "$STATE_LINK"
}
