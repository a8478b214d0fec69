# Library: create the state of an agent, or accept the state that belongs to the agent already.
# Expects: set -eu; umask 077; $root, $AGENT, $STATE, $STORE, $STATE_LINK, $MOUNTED.
. ./agent/fail.sh
. ./state/folders.sh
. ./agent/identity.sh
. ./state/top.sh

# Only an empty directory becomes a state. A volume that is not mounted would look empty, so a mount is checked first.
claim_state() {
    check_state_path
    [ -z "$MOUNTED" ] || mountpoint -q "$STATE" || fail 78 "the state volume is not mounted at $STATE"
    expect_path_of_root "$STATE"
    (umask 022 && mkdir -p "${STATE%/*}" "${STATE_LINK%/*}")
    expect_same_state
    mkdir -p "$STATE"
    take_top "$STATE"
    is_own "$STATE/.paddock" || [ ! -e "$STATE/.paddock" ] && [ ! -L "$STATE/.paddock" ] ||
        fail 78 "$STATE/.paddock is not a directory that only root can enter. If you restored it from a copy:\
 chown -R 0:0 $STATE/.paddock && chmod 700 $STATE/.paddock. Otherwise move it away."
    if [ -e "$STATE/.paddock/identity" ]; then
        expect_identity "$STATE" "$AGENT"
    else
        expect_empty
        write_identity "$STATE" "$AGENT"
    fi
    ln -sfn "$STATE" "$STATE_LINK"
}

expect_empty() {
    for found in "$STATE"/* "$STATE"/.[!.]*; do
        case "$found" in
            */lost+found | */.paddock) ;;
            *)
                [ ! -e "$found" ] ||
                    fail 78 "$STATE holds files but no mark of Paddock; \`paddock adopt $(name_of "$AGENT")\` claims them"
                ;;
        esac
    done
}

# The link always leads to the state. Without this check, a file with another state.path would start an agent without
# memory. A link that leads nowhere means that a person has moved the state.
expect_same_state() {
    known=$(readlink "$STATE_LINK" || true)
    [ -z "$known" ] || [ "$known" = "$STATE" ] || [ ! -e "$known" ] ||
        fail 78 "the state of $(name_of "$AGENT") is $known, not $STATE"
}
