# Shared: commands for everyone on the machine, as links to the configuration in force. What is somebody else's is left
# alone. Uses $programs, the folder on everyone's PATH.
check_programs() {
    for name in $PROGRAMS; do
        [ ! -e "$programs/$name" ] && [ ! -L "$programs/$name" ] ||
            [ "$(readlink "$programs/$name")" = "$root/current/programs/$name" ] ||
            fail 78 "there is a $programs/$name on the machine already, which is not of this agent"
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
