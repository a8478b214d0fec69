"""Stubs of the engines and of systemd on a machine to attack."""

from __future__ import annotations

from typing import Final

# A stub for `docker` or `podman` that runs programs on the machine itself instead of in a container.
ENGINE_STUB: Final = r"""
case "$1" in
    exec) shift; while [ "${1#--}" != "$1" ]; do shift; done; shift; exec "$@" ;;
    container | image) echo "[]"; exit 1 ;;
esac
"""
# A stub that keeps each container as a file below /srv/containers: a line for each label.
DOCKER: Final = r"""
at=/srv/containers
mkdir -p $at
labels() { # NAME
    sed -e 's/"/\\"/g' -e 's/^\([^=]*\)=\(.*\)$/"\1": "\2"/' "$at/$1" | paste -sd ,
}
case "$1 $2" in
    "container inspect")
        shift 2
        code=0 listed=
        for name; do
            if [ ! -e "$at/$name" ]; then code=1; continue; fi
            about="\"Name\": \"/$name\", \"Id\": \"c0ffee\", \"Image\": \"sha256:1234\", \"State\": {\"Pid\": 1}"
            listed="${listed:+$listed, }{$about, \"Config\": {\"Labels\": {$(labels "$name")}}}"
        done
        echo "[$listed]"
        exit $code
        ;;
    "image inspect") echo '[{"Id": "sha256:1234", "RepoTags": ["localhost/paddock/kept:1"], "Config": {}}]' ;;
esac
case "$1" in
    create)
        while [ "$1" != --name ]; do shift; done
        name=$2
        : >"$at/$name"
        for word; do case "$word" in paddock.*=*) printf '%s\n' "$word" >>"$at/$name" ;; esac; done
        ;;
    rename)
        [ ! -e "$at/$3" ] || { echo "Conflict. The container name $3 is already in use" >&2; exit 1; }
        mv "$at/$2" "$at/$3"
        ;;
    rm) for name; do :; done; rm -f "$at/$name" ;;
esac
"""
# A stub in which the units have failed: their logs are read.
FAILED_UNITS: Final = r"""
case "$*" in start*.enter@*) exit 1 ;; esac
for word; do case "$1 $word" in
    show\ *.service) printf 'ActiveState=failed\nSubState=failed\nNRestarts=3\nMainPID=1\n\n' ;;
esac; done
"""
# A stub that keeps which units run.
SYSTEMCTL: Final = """
for word; do case "$word" in *.service) units="${units-} $word" ;; esac; done
case "$1" in
    start | restart) for unit in ${units-}; do touch "/run/active-$unit"; done ;;
    stop) for unit in ${units-}; do rm -f "/run/active-$unit"; done ;;
    show)
        for unit in ${units-}; do
            state=inactive
            [ ! -e "/run/active-$unit" ] || state=active
            printf 'ActiveState=%s\nSubState=running\nNRestarts=0\nLoadState=loaded\nNeedDaemonReload=no\n\n' $state
        done
        ;;
esac
"""
