# Shared by the runtimes' apply scripts: takes a tar of bundle/, secrets.env and secret-files/ from stdin, below
# $root. Every step can be cut off at any point and done again.
set -eu
umask 077

fail() {
    echo "$2" >&2
    exit "$1"
}

receive() {
    (umask 022 && mkdir -p "$root")
    be_alone
    rm -rf "$root/incoming"
    mkdir "$root/incoming"
    tar -xf - -C "$root/incoming"
    find "$root/incoming/bundle" -type d -exec chmod 755 {} +
    . "$root/incoming/bundle/bundle.env"
}

# The state says whose it is. Only an empty one is claimed, and only where it really is the state: a volume that is
# not mounted would look empty too.
claim_state() {
    check_state_path
    [ -z "$MOUNTED" ] || mountpoint -q "$STATE" || fail 78 "the state volume is not mounted at $STATE"
    expect_way_of_root "$STATE"
    (umask 022 && mkdir -p "${STATE%/*}" "${TRAIL%/*}")
    lay_trail
    mkdir -p "$STATE"
    take_top "$STATE"
    is_own "$STATE/.paddock" || [ ! -e "$STATE/.paddock" ] && [ ! -L "$STATE/.paddock" ] || fail 78 "$STATE/.paddock is not a\
 directory of root's alone. If a copy of Paddock's own came back with another owner or mode: chown -R 0:0 $STATE/.paddock &&\
 chmod 700 $STATE/.paddock. Otherwise move it away."
    if [ -e "$STATE/.paddock/identity" ]; then
        grep -qx "agent=$AGENT" "$STATE/.paddock/identity" ||
            fail 78 "$STATE is the state of another agent ($(grep agent= "$STATE/.paddock/identity"))"
        return 0
    fi
    for found in "$STATE"/* "$STATE"/.[!.]*; do
        case "$found" in
            */lost+found | */.paddock) ;;
            *) [ ! -e "$found" ] || fail 78 "$STATE holds files but no mark of Paddock; \`paddock adopt $AGENT\` claims them" ;;
        esac
    done
    write_identity
}

write_identity() {
    mkdir -p "$STATE/.paddock"
    printf 'agent=%s\nid=%s\n' "$AGENT" "$(cat /proc/sys/kernel/random/uuid)" >"$STATE/.paddock/identity.new"
    sync "$STATE/.paddock/identity.new"
    mv "$STATE/.paddock/identity.new" "$STATE/.paddock/identity"
}

# Wherever the state is, the trail leads there: a file that puts it elsewhere would otherwise be an agent without memory.
lay_trail() {
    [ -e "$TRAIL" ] || rm -f "$TRAIL" # a link to what was moved by hand
    [ "$STATE" != "$TRAIL" ] || [ -L "$TRAIL" ] || return 0
    [ "$STATE" != "$(readlink "$TRAIL")" ] || return 0
    [ ! -e "$TRAIL" ] || rmdir "$TRAIL" 2>/dev/null || fail 78 "the state of $AGENT is $(readlink -f "$TRAIL"), not $STATE"
    [ "$STATE" = "$TRAIL" ] || ln -s "$STATE" "$TRAIL"
}

# Sets changed=yes when the secrets or the bundle in force are not the ones that came. $root/pending says so from
# before the first change until the caller has restarted what runs and removes it: what a run that was cut off has put in
# force, the next one restarts.
put_in_force() {
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
        # One that the file gives is not for the machine to make.
        ! grep -q "^$name=" "$root/incoming/secrets.env" || sed -i "/^$name=/d" "$root/generated.env"
        grep -q "^$name=" "$root/incoming/secrets.env" "$root/generated.env" ||
            echo "$name=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')" >>"$root/generated.env"
    done
    # Whether it works is to be seen anew.
    rm -f "$root/answered"
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
    let_people_in
    for old in "$root"/*/bundle.env; do
        old=${old%/bundle.env}
        case "${old##*/}" in
            "$id" | current | previous | "$(readlink "$root/previous" || true)") ;;
            *) rm -rf "$old" ;;
        esac
    done
}

# People who may log in to a machine that Paddock made: sshd reads this second file of root's too, and Paddock's own key
# is not in it. The link leads to the configuration in force, so that a key that is taken out is out.
let_people_in() {
    keys=/root/.ssh/authorized_keys2
    if [ -e "$root/current/people" ]; then
        [ ! -e "$keys" ] || [ -L "$keys" ] ||
            fail 78 "$keys is not Paddock's; move its keys to proxmox.ssh.people and remove it"
        mkdir -p /root/.ssh
        ln -sfn "$root/current/people" "$keys"
    elif [ "$(readlink "$keys" 2>/dev/null)" = "$root/current/people" ]; then
        rm "$keys"
    fi
}
