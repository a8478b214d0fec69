#!/bin/sh
# main-wrapper.sh [WORD...]: as the account, run a program, or a command of Hermes.
set -e
if [ -z "${HERMES_HOME:-}" ]; then
    exec /command/with-contenv sh "$0" "$@"
fi
export HOME=/opt/data
# shellcheck source=/dev/null # of the image
. /opt/hermes/.venv/bin/activate
if [ $# = 0 ] || ! command -v "$1" >/dev/null; then
    set -- hermes "$@"
fi
exec s6-setuidgid hermes "$@"
