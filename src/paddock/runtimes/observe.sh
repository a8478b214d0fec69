# Shared by the runtimes' observe scripts, as observe.sh ROOT STORE TRAIL AGENT PACKAGE...: prints what is there, as
# name=value lines. Changes nothing.
root=$1 store=$2 state=$(readlink "$3" || echo "$3") agent=$4
shift 4
[ $# = 0 ] || dpkg-query -W -f 'package=${Package} ${db:Status-Status}\n' "$@" 2>/dev/null | sed -n 's/ installed$//p'
echo "generation=$(readlink "$root/current")"
echo "init=$(cat /proc/1/comm)"
[ ! -e "$root/pending" ] || echo "pending=yes"
[ ! -e "$root/answered" ] || echo "answered=$(cat "$root/answered")"
for tree in "$store"/*/manifest; do
    [ ! -e "$tree" ] || { tree=${tree%/manifest} && echo "tree=${tree##*/}"; }
done
[ ! -e "$root/secrets.env" ] || echo "secrets=$(cat "$root/secrets.env" "$root"/secret-files/* 2>/dev/null | sha256sum | cut -d ' ' -f 1)"
[ ! -e "$state/.paddock/identity" ] || echo "state.at=$state"
[ ! -e "$state/.paddock/identity" ] || sed 's/^/state./' "$state/.paddock/identity"
[ ! -d "$state" ] || df -B1 --output=size,used "$state" | sed -n '2s/ *\([0-9]*\) *\([0-9]*\)/room=\1 \2/p'
[ ! -e "$state/.paddock/holder" ] || echo "holder=$(cat "$state/.paddock/holder")"
