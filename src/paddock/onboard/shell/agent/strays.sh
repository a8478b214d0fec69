# strays.sh - report where files of an agent are on the root disk
#
# Arguments: ACCOUNT UID DIRECTORY... -- NAME...
# Output: a report: stray=PATH
#
# The script looks at the account's home, the directories, and all entries with one of the names. It reads names only: it
# opens no file, follows no link and enters no other volume.
set -eu
PATH=/usr/sbin:/usr/bin:/sbin:/bin
export PATH
account=$1 uid=$2
shift 2
. ./agent/report.sh

disk=$(stat -c %d /)

# Print those arguments that are directories of the root disk and hold files. The files that a shell creates in a home do
# not count.
# shellcheck disable=SC2016 # the shell that gets it expands it
kept='disk=$1
shift
for at; do
    if [ ! -d "$at" ] || [ -L "$at" ] || [ "$(stat -c %d "$at")" != "$disk" ]; then continue; fi
    found=$(find "$at" -xdev \( -name .ssh -o -name .cache \) -prune -o ! -type d ! -name .bashrc ! -name .profile \
        ! -name .bash_logout ! -name .bash_history -print -quit | head -c 1)
    [ -z "$found" ] || printf "stray=%s\0" "$at"
done'

look() {
    while IFS=: read -r name _ number _ _ home _; do
        if [ "$name" != "$account" ] && [ "$number" != "$uid" ]; then continue; fi
        case $home in /?*) sh -c "$kept" sh "$disk" "$home" ;; esac
    done </etc/passwd
    while [ "$1" != -- ]; do
        sh -c "$kept" sh "$disk" "$1"
        shift
    done
    shift
    for name; do
        find / -ignore_readdir_race -xdev -name "$name" \
            \( -type d -exec sh -c "$kept" sh "$disk" {} + -prune -o -type f -exec printf 'stray=%s\0' {} + \)
    done
}
look "$@" | head -z -n 500 >&3
report end ok
