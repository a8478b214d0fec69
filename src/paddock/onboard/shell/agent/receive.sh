# Library: receive a bundle and make it the current one.
# Expects: set -eu; umask 077; $root, $id, $formers; perhaps $VERSION and $DISTRIBUTION of the code; stdin, a tar of
# bundle/, secrets.env and secret-files/.
# Sets: the variables of bundle.env; $changed.
#
# $root/before has what the agent was last verified with, from when that is replaced until the agent was verified again:
# the id of the bundle, and the secrets. Nothing else on the machine knows the secrets from before.
# Each function may be interrupted at any point and be called again.
. ./agent/fail.sh
. ./agent/formers.sh
. ./agent/identity.sh
. ./state/lock.sh
. ./state/top.sh
. ./state/saved.sh

receive() {
    (umask 022 && mkdir -p "$root")
    begin_to_receive
    tar -xf - -C "$root/incoming"
    find "$root/incoming/bundle" -type d -exec chmod 755 {} +
    # shellcheck source=/dev/null # written by Paddock, in the bundle
    . "$root/incoming/bundle/bundle.env"
    expect_no_former
    expect_saved_state
}

begin_to_receive() {
    lock_agent
    rm -rf "$root/incoming"
    mkdir "$root/incoming"
}

# Receive what the agent was last verified with. Its code may run only on a state that no other version has touched.
# Sets: $id.
receive_verified() {
    [ -d "$root" ] || fail 75 "the agent has no configuration"
    begin_to_receive
    from=$root/before
    [ -e "$from/bundle" ] || from=$root
    id=$(cat "$from/bundle" 2>/dev/null || cat "$root/answered" 2>/dev/null || true)
    [ -n "$id" ] && [ -e "$root/$id/bundle.env" ] || fail 75 "no configuration is left that the agent was verified with"
    cp -a "$root/$id" "$root/incoming/bundle"
    cp -a "$from/secrets.env" "$from/secret-files" "$root/incoming/"
    # shellcheck source=/dev/null # written by Paddock, in the bundle
    . "$root/incoming/bundle/bundle.env"
    # shellcheck disable=SC2153 # bundle.env sets it
    expect_identity "$STATE" "$AGENT"
    ran=$(cat "$STATE/.paddock/version" 2>/dev/null || true)
    known=$(version_of_tree "$STORE" "$TREE" "${IMAGE-}")
    [ -z "$ran" ] || [ -z "$known" ] || [ "${ran% from a package}" = "$known" ] ||
        fail 75 "the state is one of version $ran, and the configuration from before is for $known"
}

# A machine that was stopped when the run was planned, or a state from another machine, can have the agent under a former
# id. Exit with 76: the run observes again, and renames the agent first.
expect_no_former() {
    # shellcheck disable=SC2153 # bundle.env sets them
    agent=$AGENT state_link=$STATE_LINK
    for former in $formers; do
        locate_former "$former"
        if [ -L "$former_root/current" ] ||
            { is_own "$STATE/.paddock" && [ "$(identity_of "$STATE" 2>/dev/null)" = "$former" ]; }; then
            rm -rf "$root/incoming"
            rmdir "$root" 2>/dev/null || true
            fail 76 "this machine has $(in_words "$former"), which becomes $(in_words "$AGENT")"
        fi
    done
}

# Set changed=yes if the secrets or the current bundle differ from the received ones. The file $root/pending exists from
# before the first change until the caller has restarted the agent. If a run is interrupted, the next run finds the file
# and restarts the agent.
make_current() {
    changed=
    [ ! -e "$root/pending" ] || changed=yes
    chmod 400 "$root/incoming/secrets.env"
    cmp -s "$root/incoming/secrets.env" "$root/secrets.env" || changed=yes
    mkdir -p "$root/incoming/secret-files"
    diff -rq "$root/incoming/secret-files" "$root/secret-files" >/dev/null 2>&1 || changed=yes
    before=$(readlink "$root/current" || true)
    [ "$before" = "$id" ] || changed=yes
    touch "$root/generated.env"
    for name in $GENERATED; do
        grep -q "^$name=" "$root/incoming/secrets.env" "$root/generated.env" || changed=yes
    done
    [ -z "$changed" ] || touch "$root/pending"
    for name in $GENERATED; do
        # A key that the file sets is not generated.
        ! grep -q "^$name=" "$root/incoming/secrets.env" || sed -i "/^$name=/d" "$root/generated.env"
        grep -q "^$name=" "$root/incoming/secrets.env" "$root/generated.env" ||
            echo "$name=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')" >>"$root/generated.env"
    done
    keep_verified
    # The new bundle is not verified yet.
    rm -f "$root/answered"
    record_version # of a state that did not exist before
    rm -rf "$root/secret-files"
    mv "$root/incoming/secret-files" "$root/secret-files"
    mv "$root/incoming/secrets.env" "$root/secrets.env"
    [ -d "$root/$id" ] || mv "$root/incoming/bundle" "$root/$id"
    rm -rf "$root/incoming"
    if [ "$before" != "$id" ]; then
        [ -z "$before" ] || ln -sfn "$before" "$root/previous"
        ln -sfn "$id" "$root/current.new"
        mv -T "$root/current.new" "$root/current"
    fi
    link_keys_of_people
    verified=$(cat "$root/before/bundle" 2>/dev/null || true)
    for old in "$root"/*/bundle.env; do
        old=${old%/bundle.env}
        case "${old##*/}" in
            "$id" | current | previous | "$(readlink "$root/previous" || true)" | "$verified") ;;
            *) rm -rf "$old" ;;
        esac
    done
}

# Keep what the agent is verified with, if something else becomes current. What is not verified is not kept.
keep_verified() {
    [ -n "$before" ] && [ "$(cat "$root/answered" 2>/dev/null)" = "$before" ] || return 0
    [ "$before" != "$id" ] || ! cmp -s "$root/incoming/secrets.env" "$root/secrets.env" ||
        ! diff -rq "$root/incoming/secret-files" "$root/secret-files" >/dev/null 2>&1 || return 0
    rm -rf "$root/before.new"
    mkdir -p "$root/before.new/secret-files"
    cp -a "$root/secrets.env" "$root/before.new/"
    [ ! -d "$root/secret-files" ] || cp -a "$root/secret-files/." "$root/before.new/secret-files/"
    echo "$before" >"$root/before.new/bundle"
    rm -rf "$root/before"
    mv -T "$root/before.new" "$root/before"
}

# Let people log in to a machine that Paddock made. sshd reads this second file of root too; Paddock's own key is not in
# it. The file is a link into the current bundle, so that a key that was removed from the bundle no longer works.
link_keys_of_people() {
    keys=/root/.ssh/authorized_keys2
    if [ -e "$root/current/people" ]; then
        [ ! -e "$keys" ] || [ -L "$keys" ] ||
            fail 78 "Paddock did not create $keys; move its keys to proxmox.ssh.people and remove the file"
        mkdir -p /root/.ssh
        ln -sfn "$root/current/people" "$keys"
    elif [ "$(readlink "$keys" 2>/dev/null)" = "$root/current/people" ]; then
        rm "$keys"
    fi
}
