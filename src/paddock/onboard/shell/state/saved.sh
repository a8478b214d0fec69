# Library: let a version of the code touch a state only after the state was saved.
# Expects: set -eu; umask 077; $root, $STATE, $STORE; $VERSION, of the code that is about to run, empty if it has none.
. ./agent/fail.sh
. ./agent/ran.sh
. ./state/top.sh
. ./code/upgraded.sh

# Exit with 77 if another version ran on the state, and neither the state was saved for this one, nor is it the state from
# before that version. The run observes again, and saves the state first: it was not known when the run was planned, because
# the machine was stopped or did not exist.
expect_saved_state() {
    [ -n "${VERSION-}" ] && is_own "$STATE/.paddock" && [ -e "$STATE/.paddock/identity" ] || return 0
    ran=$(version_that_ran "$STATE" "$STORE")
    if [ -n "$ran" ] && [ "$ran" != "$VERSION" ] && ! saved_for_this && ! went_back; then
        rm -rf "$root/incoming"
        fail 77 "the state is one of version $ran, and was not saved for $VERSION"
    fi
    record_version
}

# The agent writes `holder` when it starts. If it has started since, the saved state is not the last one.
saved_for_this() {
    [ ! "$STATE/.paddock/holder" -nt "$STATE/.paddock/upgrade" ] &&
        [ "$(upgrade_says "$STATE" from)" = "$ran" ] && [ "$(upgrade_says "$STATE" to)" = "$VERSION" ] &&
        [ "$(upgrade_says "$STATE" back)" != yes ]
}

went_back() {
    [ "$(upgrade_says "$STATE" from)" = "$VERSION" ] && [ "$(upgrade_says "$STATE" to)" = "$ran" ] &&
        [ "$(upgrade_says "$STATE" back)" = yes ] && [ -n "$(replaced_state "$STATE")" ]
}

record_version() {
    [ -n "${VERSION-}" ] || return 0
    [ "$(cat "$STATE/.paddock/version" 2>/dev/null)" != "$VERSION" ] || return 0
    echo "$VERSION" >"$STATE/.paddock/version.new"
    sync "$STATE/.paddock/version.new"
    mv "$STATE/.paddock/version.new" "$STATE/.paddock/version"
}
