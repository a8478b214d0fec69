# Library: give an agent another id, and keep its state, secrets and code.
# Expects: set -eu; umask 077; $root, $STORE, $state, $state_link, $agent, $former, $MOUNTED.
#
# The steps are in an order that allows an interruption at any point. The configuration keeps its old place until the last
# step: as long as it is there, the next run finishes the rename. Once the identity is rewritten, no unit with the former
# id can get the lease, and Paddock 0.1 refuses the state.
. ./agent/fail.sh
. ./agent/formers.sh
. ./agent/identity.sh
. ./state/lock.sh
. ./state/top.sh
. ./code/versions.sh

# Read the proof that this is the former's state, before anything stops.
begin_rename() {
    locate_former "$former"
    if [ -d "$former_root" ]; then
        new_root=$root root=$former_root
        lock_agent
        root=$new_root
    fi
    [ ! -L "$root/current" ] || [ ! -L "$former_root/current" ] ||
        fail 78 "this machine has both $(in_words "$former") and $(in_words "$agent"); remove one of them"
    [ -z "$MOUNTED" ] || mountpoint -q "$state" || fail 78 "the state volume is not mounted at $state"
    expect_path_of_root "$state"
    is_own "$state/.paddock" && [ -e "$state/.paddock/identity" ] ||
        fail 78 "there is no state of $(in_words "$former") at $state"
    # An interrupted run may have written the new identity already.
    [ "$(identity_of "$state")" = "$agent" ] || expect_identity "$state" "$former"
    for link in "$state_link" "$former_link"; do
        [ ! -L "$link" ] || [ ! -e "$link" ] || [ "$(readlink "$link")" = "$state" ] ||
            fail 78 "$link leads to $(readlink "$link"), and the state is $state"
    done
}

# The agent is stopped. Hold the lease, so that nobody starts it meanwhile, and make the state the new id's.
rename_state() {
    exec 9>>"$state/.paddock/lease"
    flock --wait 10 9 || fail 75 "the state is held by $(cat "$state/.paddock/holder")"
    (umask 022 && mkdir -p "${state_link%/*}")
    ln -sfn "$state" "$state_link"
    [ ! -L "$former_link" ] || rm "$former_link"
    [ "$(identity_of "$state")" = "$agent" ] ||
        write_identity "$state" "$agent" "$(sed -n 's/^id=//p' "$state/.paddock/identity")"
}

# The lock keeps other runs from pruning a code tree whose link is moving.
rename_code() (
    from=${STORE%/*}/$former to=${STORE%/*}/$agent
    [ -d "$from" ] || exit 0
    exec 7<"${STORE%/*}"
    flock 7
    (umask 022 && mkdir -p "$to")
    for link in "$from"/*; do
        [ ! -L "$link" ] || mv -T -- "$link" "$to/${link##*/}"
    done
    rmdir "$from"
)

rename_configuration() {
    [ -L "$former_root/current" ] && [ ! -L "$root/current" ] || return 0
    touch "$former_root/pending"
    rm -rf "$former_root/answered" "$former_root/before" # what has the former id cannot run any more
    if [ -d "$root" ]; then # of a run that was interrupted before its first change
        expect_no_state "$root"
        rm -rf --one-file-system "$root"
    fi
    (umask 022 && mkdir -p "${root%/*}")
    mv -T -- "$former_root" "$root"
    case "$root" in */"$agent"/etc) rmdir "${former_root%/etc}" 2>/dev/null || true ;; esac # a state may be in it
}
