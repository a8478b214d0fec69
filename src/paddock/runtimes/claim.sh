# claim.sh STATE AGENT USER UID GID MOUNTED [ROOT STORE TRAIL], after receive.sh, top.sh and folders.sh: makes files that were
# there before Paddock the state of an agent: they move into its home, and those of other owners become its own. Can be cut
# off at any point and done again. The agent may have prepared what is found here, and may still be running.
STATE=$1 AGENT=$2 user=$3 uid=$4 gid=$5 MOUNTED=$6 root=${7-} STORE=${8-} TRAIL=${9-}
own=$STATE/.paddock
[ -z "$root" ] || check_state_path
[ -z "$MOUNTED" ] || mountpoint -q "$STATE" || fail 78 "the state volume is not mounted at $STATE"
[ -d "$STATE" ] || fail 78 "there is no $STATE"
expect_way_of_root "$STATE"
if is_own "$own" && [ -e "$own/identity" ]; then
    grep -qx "agent=$AGENT" "$own/identity" || fail 78 "$STATE is the state of another agent"
    exit 0
fi
user_at=$(find /proc/[0-9]*/cwd /proc/[0-9]*/fd -maxdepth 1 \( -lname "$STATE" -o -lname "$STATE/*" \) -print -quit \
    2>/dev/null || true)
if [ -n "$user_at" ]; then
    user_at=${user_at#/proc/} && user_at=${user_at%%/*}
    fail 75 "process $user_at ($(cat "/proc/$user_at/comm")) has files of $STATE open; stop it first"
fi
take_top "$STATE"

set_aside_unless_own() { # DIRECTORY
    is_own "$1" || [ ! -e "$1" ] && [ ! -L "$1" ] || mv -T -- "$1" "$1.found-$(date +%s)"
}

# Where there is no .paddock yet, everything moves. It is there from the first moment on together with the folder that
# collects what moves: one without the other means that all of it has moved.
set_aside_unless_own "$own"
if [ ! -d "$own" ]; then
    set_aside_unless_own "$own.new"
    mkdir -p "$own.new/adopting"
    mv -T "$own.new" "$own"
fi
if [ -e "$own/adopting" ] || [ -L "$own/adopting" ]; then
    is_own "$own/adopting" || fail 78 "$own/adopting is not a directory that Paddock made"
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
# What belongs to the agent already is left as it is, its group too. A file with several names may have one outside of the
# state, and is no reason to give that away.
changed=$(find "$STATE/home" -xdev ! -uid "$uid" \( -type d -o -links 1 \) -printf . -execdir chown -h "$uid:$gid" -- {} + | wc -c)
left=$(find "$STATE/home" -xdev ! -uid "$uid" ! -type d -links +1 -printf . | wc -c)
sync
write_identity
[ "$changed" = 0 ] || echo "$changed files in $STATE/home were not the agent's, and are now"
[ "$left" = 0 ] || echo "$left files in $STATE/home have several names (hard links) and keep their owner"
