# Library: receive a bundle and make it the current one.
# Expects: set -eu; umask 077; $root, $id, $formers; perhaps $VERSION and $DISTRIBUTION of the code; stdin, a tar of
# bundle/, secrets.env and secret-files/.
# Sets: the variables of bundle.env; $changed.
# Each function may be interrupted at any point and be called again.
. ./fail.sh
. ./formers.sh
. ./identity.sh
. ./lock.sh
. ./top.sh
. ./saved.sh

receive() {
    (umask 022 && mkdir -p "$root")
    lock_agent
    rm -rf "$root/incoming"
    mkdir "$root/incoming"
    tar -xf - -C "$root/incoming"
    find "$root/incoming/bundle" -type d -exec chmod 755 {} +
    # shellcheck source=/dev/null # written by Paddock, in the bundle
    . "$root/incoming/bundle/bundle.env"
    expect_no_former
    expect_saved_state
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
    for old in "$root"/*/bundle.env; do
        old=${old%/bundle.env}
        case "${old##*/}" in
            "$id" | current | previous | "$(readlink "$root/previous" || true)") ;;
            *) rm -rf "$old" ;;
        esac
    done
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
