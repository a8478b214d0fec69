#!/bin/sh
# enter ARGV...: runs a program in the container beside the agent, as its account and with its environment.
set -eu
here=${0%/*}
root=${here%/*}
. "$here/bundle.env"
. "$here/account.sh"
as_agent "$DATA" "$@" 3<"$here/environment" 4<"$root/secrets.env" 5<"$root/generated.env"
