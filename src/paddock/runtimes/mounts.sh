# mounts.sh UID GID PATH…, after report.sh: reports for each path whether it is a directory, a mount point, whose, and writable for the ids;
# without root, for whoever runs this.
uid=$1 gid=$2
shift 2
as() { if [ "$(id -u)" = 0 ]; then setpriv --reuid "$uid" --regid "$gid" --clear-groups "$@"; else "$@"; fi; }
# Whether a path leads to Paddock's own files or to a state, in or above them. A link can, whatever the file says.
secret() {
    real=$(realpath -- "$1") && real=${real%/}
    for own in /etc/paddock /opt/paddock /var/lib/paddock /var/lib/paddock/*; do
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
