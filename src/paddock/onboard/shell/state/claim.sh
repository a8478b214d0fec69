# claim.sh - make files that existed before Paddock the state of an agent
#
# Arguments: STATE AGENT USER UID GID MOUNTED [ROOT STORE STATE_LINK [REQUIRED]]; ROOT, STORE and STATE_LINK are for the
# check of the path. With REQUIRED, the account must have that uid, or must not exist yet
# Output: a line for a person where files changed or kept their owner
#
# The files move into the agent's home and become the agent's own. The script may be interrupted at any point and be run
# again. The agent may have prepared the files, and may still be running.
set -eu
umask 077
STATE=$1 AGENT=$2 user=$3 uid=$4 gid=$5 MOUNTED=$6 root=${7-} STORE=${8-} STATE_LINK=${9-} required=${10-}
. ./agent/fail.sh
. ./state/folders.sh
. ./agent/identity.sh
. ./state/top.sh

own=$STATE/.paddock
[ -z "$root" ] || check_state_path
[ -z "$MOUNTED" ] || mountpoint -q "$STATE" || fail 78 "the state volume is not mounted at $STATE"
[ -d "$STATE" ] || fail 78 "there is no $STATE"
expect_path_of_root "$STATE"
if is_own "$own" && [ -e "$own/identity" ]; then
    expect_identity "$STATE" "$AGENT"
    exit 0
fi
open_in=$(find /proc/[0-9]*/cwd /proc/[0-9]*/fd -maxdepth 1 \( -lname "$STATE" -o -lname "$STATE/*" \) -print -quit \
    2>/dev/null || true)
if [ -n "$open_in" ]; then
    open_in=${open_in#/proc/} && open_in=${open_in%%/*}
    fail 75 "process $open_in ($(cat "/proc/$open_in/comm")) has files of $STATE open; stop it first"
fi
# Before anything moves: the account would be refused later, and the install would be cut off from its files by then.
expect_account() {
    there=$(id -u "$user" 2>/dev/null || true)
    taken=$(getent passwd "$uid" | cut -d : -f 1)
    if [ -n "$there" ] && [ "$there" != "$uid" ]; then
        keep="write user: {name: $user, uid: $there, gid: $(id -g "$user")} to use that account, or "
        { [ "$there" -ge 1000 ] && [ "$there" -le 60000 ]; } || keep=
        fail 78 "nothing was moved: the account $user has the uid $there here, and the file says $uid;\
 ${keep}rename it: usermod --login old-$user $user"
    elif [ -z "$there" ] && [ -n "$taken" ]; then
        fail 78 "nothing was moved: the uid $uid is that of the account $taken here, and the file says $user;\
 write user: {name: $taken, uid: $uid} to use that account, or another uid"
    fi
}

[ -z "$required" ] || expect_account
take_top "$STATE"

set_aside_unless_own() { # DIRECTORY
    is_own "$1" || [ ! -e "$1" ] && [ ! -L "$1" ] || mv -T -- "$1" "$1.found-$(date +%s)"
}

# Without .paddock, all entries move. The directory adopting collects them and appears together with .paddock: if
# .paddock exists without adopting, all entries have moved.
set_aside_unless_own "$own"
if [ ! -d "$own" ]; then
    set_aside_unless_own "$own.new"
    mkdir -p "$own.new/adopting"
    mv -T "$own.new" "$own"
fi
if [ -e "$own/adopting" ] || [ -L "$own/adopting" ]; then
    is_own "$own/adopting" || fail 78 "Paddock did not create the directory $own/adopting"
    for found in "$STATE"/* "$STATE"/.[!.]* "$STATE"/..?*; do
        case "$found" in
            */lost+found | */.paddock) ;;
            *) [ ! -e "$found" ] && [ ! -L "$found" ] || mv -T -- "$found" "$own/adopting/${found##*/}" ;;
        esac
    done
    mv -T "$own/adopting" "$STATE/home"
fi
[ -e "$STATE/home" ] || mkdir "$STATE/home"
[ -d "$STATE/home" ] && [ ! -L "$STATE/home" ] || fail 78 "$STATE/home is not a directory"
uid=$(id -u "$user" 2>/dev/null || echo "$uid")
gid=$(id -g "$user" 2>/dev/null || echo "$gid")
# Files that belong to the agent keep their group. A file with several hard links keeps its owner, because another link
# may be outside the state.
changed=$(find "$STATE/home" -xdev ! -uid "$uid" \( -type d -o -links 1 \) -printf . \
    -execdir chown -h "$uid:$gid" -- {} + | wc -c)
left=$(find "$STATE/home" -xdev ! -uid "$uid" ! -type d -links +1 -printf . | wc -c)
sync
write_identity "$STATE" "$AGENT"
[ "$changed" = 0 ] || echo "$changed files in $STATE/home had another owner and now belong to the agent"
[ "$left" = 0 ] || echo "$left files in $STATE/home have several hard links and keep their owner"
