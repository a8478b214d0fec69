# claim.sh STATE AGENT USER UID GID MOUNTED [ROOT STORE TRAIL]: makes files that were there before Paddock the state of an agent: they move
# into its home, and those of other owners become its own. Can be cut off at any point and done again.
STATE=$1 AGENT=$2 user=$3 uid=$4 gid=$5 MOUNTED=$6 root=${7-} STORE=${8-} TRAIL=${9-}
[ -z "$root" ] || check_state_path
[ -z "$MOUNTED" ] || mountpoint -q "$STATE" || fail 78 "the state volume is not mounted at $STATE"
[ -d "$STATE" ] || fail 78 "there is no $STATE"
if [ -e "$STATE/.paddock/identity" ]; then
    grep -qx "agent=$AGENT" "$STATE/.paddock/identity" || fail 78 "$STATE is the state of another agent"
    exit 0
fi
user_at=$(find /proc/[0-9]*/cwd /proc/[0-9]*/fd -maxdepth 1 \( -lname "$STATE" -o -lname "$STATE/*" \) -print -quit \
    2>/dev/null || true)
if [ -n "$user_at" ]; then
    user_at=${user_at#/proc/} && user_at=${user_at%%/*}
    fail 75 "process $user_at ($(cat "/proc/$user_at/comm")) has files of $STATE open; stop it first"
fi

# Where there is no .paddock yet, everything moves. It is there from the first moment on together with the folder that
# collects what moves: one without the other means that all of it has moved.
if [ ! -d "$STATE/.paddock" ]; then
    mkdir -p "$STATE/.paddock.new/adopting"
    mv "$STATE/.paddock.new" "$STATE/.paddock"
fi
if [ -d "$STATE/.paddock/adopting" ]; then
    for found in "$STATE"/* "$STATE"/.[!.]* "$STATE"/..?*; do
        case "$found" in
            */lost+found | */.paddock) ;;
            *) [ ! -e "$found" ] && [ ! -L "$found" ] || mv "$found" "$STATE/.paddock/adopting/" ;;
        esac
    done
    mv -T "$STATE/.paddock/adopting" "$STATE/home"
fi
mkdir -p "$STATE/home"
uid=$(id -u "$user" 2>/dev/null || echo "$uid")
gid=$(id -g "$user" 2>/dev/null || echo "$gid")
# What belongs to the agent already is left as it is, its group too.
changed=$(find "$STATE/home" -xdev ! -uid "$uid" -print -exec chown -h "$uid:$gid" {} + | wc -l)
sync
write_identity
[ "$changed" = 0 ] || echo "$changed files in $STATE/home were not the agent's, and are now"
