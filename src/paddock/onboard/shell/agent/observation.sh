# Library: report an agent's packages, bundle, code trees and state. Changes nothing.
# Expects: $root, $store, $state_link, $state, the path in the file, $agent, $formers; perhaps $DISTRIBUTION.
# Sets: $state, where the state is; $own, its directory .paddock.
. ./agent/report.sh
. ./code/system_path.sh
. ./agent/formers.sh
. ./agent/identity.sh
. ./state/top.sh
. ./agent/ran.sh
. ./code/upgraded.sh
. ./state/overwritten.sh
. ./code/package_manager.sh

observe_agent() { # PACKAGE...
    find_state
    own=$state/.paddock
    observe_packages "$@"
    report bundle "$(readlink "$root/current")"
    observe_housing
    report init "$(cat /proc/1/comm)"
    [ ! -e "$root/pending" ] || report pending yes
    if [ -e "$root/answered" ]; then
        report answered "$(cat "$root/answered")"
    elif [ -e "$root/before/bundle" ]; then
        report before "$(cat "$root/before/bundle")"
    fi
    for tree in "$store"/*/manifest; do
        [ ! -e "$tree" ] || { tree=${tree%/manifest} && report tree "${tree##*/}"; }
    done
    [ ! -e "$root/secrets.env" ] ||
        report secrets "$(cat "$root/secrets.env" "$root"/secret-files/* 2>/dev/null | sha256sum | cut -d ' ' -f 1)"
    if is_own "$own"; then
        if [ -e "$own/identity" ]; then
            report state.at "$state"
            report state.agent "$(identity_of "$state")"
            observe_owner "$(identity_of "$state")"
            ! is_newer "$state" || report state.newer "$(identity_version "$state")"
            report_before "$(replaced_state "$state")"
            for left in incoming incoming.json incoming-aside discarded; do
                [ ! -e "$own/$left" ] || report state.unsettled "$own/$left"
            done
            report state.ran "$(version_that_ran "$state" "$store")"
            HOME_DIR=$state/home && changed_since_written | report_lines state.changed
            [ ! -e "$own/upgrade" ] || report_lines upgrade <"$own/upgrade"
            [ ! -e "$own/holder" ] || report holder "$(cat "$own/holder")"
        fi
    elif [ -e "$own" ] || [ -L "$own" ]; then
        report state.planted "$own"
    fi
    [ ! -e "${state%/*}/.paddock-forgotten-$agent" ] || report state.forgotten "${state%/*}/.paddock-forgotten-$agent"
    observe_formers
    [ ! -d "$state" ] || report room "$(df -B1 --output=size,used "$state" | sed -n '2s/ *\([0-9]*\) *\([0-9]*\)/\1 \2/p')"
}

# Report what the code of the current bundle runs in: the supervisor, and the base if it is in a container. An image that
# brings the code is the agent's version.
observe_housing() {
    [ -e "$root/current/bundle.env" ] || return 0
    # shellcheck source=/dev/null # written by Paddock, in the bundle
    housing=$(ENGINE='' IMAGE='' UNITS='' && . "$root/current/bundle.env" &&
        if [ -n "$ENGINE" ]; then echo "$ENGINE${TREE:+ $IMAGE}"; elif [ -n "$UNITS" ]; then echo systemd; fi)
    [ -z "$housing" ] || report housing "$housing"
}

# Root looks for programs that every user can run, because the agent is another user.
observe_packages() ( # PACKAGE...
    [ "$(id -u)" != 0 ] || PATH=$SYSTEM_PATH
    for package; do
        ! has_package "$package" || report package "$package"
    done
    report installer "$(installer)"
)

report_before() { # PATH
    [ -z "$1" ] || report state.before "$1"
}

# Without a link of its own, the agent may have a state under a former id.
find_state() {
    if [ -e "$state_link" ]; then
        state=$(readlink "$state_link")
        return
    fi
    for former in $formers; do
        locate_former "$former"
        found=$(readlink "$former_link" || echo "$former_link")
        if is_own "$found/.paddock" && [ "$(identity_of "$found" 2>/dev/null)" = "$former" ]; then
            state=$found
            return
        fi
    done
}

observe_owner() { # ID, of the state
    case " $formers " in
        *" $1 "*) report state.former "$1" ;;
        *) [ "$1" = "$agent" ] || report state.foreign "$1" ;;
    esac
}

observe_formers() {
    for former in $formers; do
        locate_former "$former"
        [ ! -L "$former_root/current" ] || report former "$former"
        left=${state%/*}/.paddock-forgotten-$former
        [ ! -e "$left" ] || report former.forgotten "$left"
    done
    # shellcheck disable=SC2086 # several ids
    others_of_the_name $formers | report_lines other
}
