"""Shell code for the stubs of the engines and of systemd on a machine to attack."""

from __future__ import annotations

from typing import Final

# A stub for `docker` or `podman` that runs programs on the machine itself instead of in a container.
ENGINE_STUB: Final = r"""
case "$1" in
    exec) shift; while [ "${1#--}" != "$1" ]; do shift; done; shift; exec "$@" ;;
    container | image) exit 1 ;;
esac
"""
# A stub that keeps each container as two files below /srv/containers: one with its identity, one with its agent.
DOCKER: Final = r"""
at=/srv/containers
mkdir -p $at
case "$1" in
    container)
        for name; do :; done
        [ -e "$at/$name" ] || exit 1
        case "$*" in *paddock.agent*) [ ! -e "$at/$name.agent" ] || cat "$at/$name.agent" ;; *) cat "$at/$name" ;; esac
        ;;
    create)
        while [ "$1" != --name ]; do shift; done
        echo label >"$at/$2"
        for word; do case "$word" in paddock.agent=*) echo "${word#*=}" >"$at/$2.agent" ;; esac; done
        ;;
    rename)
        [ ! -e "$at/$3" ] || { echo "Conflict. The container name $3 is already in use" >&2; exit 1; }
        mv "$at/$2" "$at/$3" && { [ ! -e "$at/$2.agent" ] || mv "$at/$2.agent" "$at/$3.agent"; }
        ;;
    rm) for name; do :; done; rm -f "$at/$name" "$at/$name.agent" ;;
    image) exit 0 ;;
esac
"""
# A stub that keeps which units run.
SYSTEMCTL: Final = """
case "$1" in
    is-active) for unit; do [ ! -e "/run/active-$unit" ] || echo active; done ;;
    start | restart) shift; for unit; do touch "/run/active-$unit"; done ;;
    stop) shift; for unit; do rm -f "/run/active-$unit"; done ;;
    show) echo SubState=running; echo NRestarts=0 ;;
esac
"""
