# Library: the agent's commands for all users of the machine, as links into the current bundle.
# Expects: $root, $PROGRAMS, $programs, a directory of every user's PATH. Entries of others stay untouched.
. ./agent/fail.sh

check_programs() {
    for name in $PROGRAMS; do
        [ ! -e "$programs/$name" ] && [ ! -L "$programs/$name" ] ||
            [ "$(readlink "$programs/$name")" = "$root/current/programs/$name" ] ||
            fail 78 "$programs/$name exists on the machine and does not belong to this agent"
    done
}

link_programs() {
    drop_programs
    [ -z "$PROGRAMS" ] || (umask 022 && mkdir -p "$programs")
    for name in $PROGRAMS; do
        ln -s "$root/current/programs/$name" "$programs/$name"
    done
}

drop_programs() {
    [ ! -d "$programs" ] || find "$programs" -maxdepth 1 -lname "$root/current/programs/*" -delete
}
