# Library: whether the agent's files that the file of Paddock overwrites are as Paddock wrote them.
# Expects: $root, $HOME_DIR.
#
# The file $root/overwritten has one line for each: its inode, size and time of change, a tab, and its path below the
# home. They are compared instead of the contents, because root reads no file that the agent can replace by a link or a
# pipe.
tab=$(printf '\t')

condition_of() { # PATH
    stat -c '%i %s %z' -- "$HOME_DIR/$1" 2>/dev/null || echo missing
}

is_as_written() { # PATH
    [ -e "$root/overwritten" ] && grep -qxF "$(condition_of "$1")$tab$1" "$root/overwritten"
}

changed_since_written() {
    [ ! -e "$root/overwritten" ] || cut -f 2 "$root/overwritten" | while IFS= read -r path; do
        is_as_written "$path" || echo "$path"
    done
}
