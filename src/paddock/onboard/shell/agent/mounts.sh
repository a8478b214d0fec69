# mounts.sh - report whether directories of the host can be mounted for an agent
#
# Arguments: UID GID PATH...; the agent's ids
# Output: a report: mount=KIND OWNER TRIED_UID WRITABLE PATH
#
# Without root the script tries to write as the user who runs it.
uid=$1 gid=$2
shift 2
. ./agent/report.sh

as() { if [ "$(id -u)" = 0 ]; then setpriv --reuid "$uid" --regid "$gid" --clear-groups "$@"; else "$@"; fi; }

# Whether a path leads to Paddock's own files or to a state, or to a directory above or below them. A symbolic link can
# lead there, whatever the file says.
secret() {
    real=$(realpath -- "$1") && real=${real%/}
    for own in /etc/paddock /opt/paddock /var/lib/paddock /var/lib/paddock/* /var/lib/paddock/.agents/*; do
        own=$(realpath -m -- "$own")
        case "$real/" in "$own"/*) return 0 ;; esac
        case "$own/" in "$real"/*) return 0 ;; esac
    done
    return 1
}

for path; do
    if [ ! -d "$path" ]; then report mount "missing - - - $path"; continue; fi
    kind=directory writable=no
    mountpoint -q "$path" && kind=mounted
    [ "$(findmnt --noheadings --output FSROOT --mountpoint "$path" | tail -n 1)" != / ] || kind=disk
    ! secret "$path" || kind=secret
    as test -w "$path" && writable=yes
    report mount "$kind $(stat -c %u "$path") $(as id -u) $writable $path"
done
report end ok
