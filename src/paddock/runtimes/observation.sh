# Library: report an agent's packages, bundle, code trees and state. Changes nothing.
# Expects: $root, $store, $state_link, $state, the path in the file, $agent.
# Sets: $state, where the state is; $own, its directory .paddock.
. ./report.sh
. ./identity.sh
. ./top.sh

observe_agent() { # PACKAGE...
    [ ! -e "$state_link" ] || state=$(readlink "$state_link")
    own=$state/.paddock
    # shellcheck disable=SC2016 # the braces are dpkg's
    [ $# = 0 ] ||
        dpkg-query -W -f '${Package} ${db:Status-Status}\n' "$@" 2>/dev/null | sed -n 's/ installed$//p' | report_lines package
    report bundle "$(readlink "$root/current")"
    report init "$(cat /proc/1/comm)"
    [ ! -e "$root/pending" ] || report pending yes
    [ ! -e "$root/answered" ] || report answered "$(cat "$root/answered")"
    for tree in "$store"/*/manifest; do
        [ ! -e "$tree" ] || { tree=${tree%/manifest} && report tree "${tree##*/}"; }
    done
    [ ! -e "$root/secrets.env" ] ||
        report secrets "$(cat "$root/secrets.env" "$root"/secret-files/* 2>/dev/null | sha256sum | cut -d ' ' -f 1)"
    if is_own "$own"; then
        if [ -e "$own/identity" ]; then
            report state.at "$state"
            report state.agent "$(identity_of "$state")"
            ! is_newer "$state" || report state.newer "$(identity_version "$state")"
            [ ! -e "$own/holder" ] || report holder "$(cat "$own/holder")"
        fi
    elif [ -e "$own" ] || [ -L "$own" ]; then
        report state.planted "$own"
    fi
    [ ! -e "${state%/*}/.paddock-forgotten-$agent" ] || report state.forgotten "${state%/*}/.paddock-forgotten-$agent"
    [ ! -d "$state" ] || report room "$(df -B1 --output=size,used "$state" | sed -n '2s/ *\([0-9]*\) *\([0-9]*\)/\1 \2/p')"
}
