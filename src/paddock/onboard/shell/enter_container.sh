#!/bin/sh
# enter_container.sh - run a program in the container, as the agent's account and with its environment
#
# Arguments: ARGV...
# Runs in the container, as root, from the current bundle.
set -eu
here=${0%/*}
root=${here%/*}
# shellcheck source=/dev/null # written by Paddock, in the bundle
. "$here/bundle.env"
. ./account.sh
. ./limited.sh

find_families
as_agent "$DATA" "$@" 3<"$here/environment" 4<"$root/secrets.env" 5<"$root/generated.env"
