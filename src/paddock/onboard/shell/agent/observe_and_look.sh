# observe_and_look.sh - report an agent, and look at it at the same time: one connection for both
#
# Arguments: CURRENT BUNDLE PROGRAM REPORT...; the link to the current bundle, the wanted one, the Python program that
# looks if they are the same, and the argv that reports
# Input: the question for the program
# Output: the report, and then what the program printed
#
# The agent decides what the program prints and how long it takes. Both are limited. The report is complete without it.
current=$1 wanted=$2 program=$3
shift 3

look() {
    [ "$(readlink "$current")" != "$wanted" ] || timeout 20 python3 -I -S -c "$program" | head -c 4194304
}

exec 3>&1 4<&0
facts=$(
    look <&4 3>&- &
    "$@" </dev/null >&3 || exit
    wait
)
reported=$?
printf %s "$facts"
exit "$reported"
