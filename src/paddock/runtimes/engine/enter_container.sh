#!/bin/sh
# enter ARGV...: runs a program in the container beside the agent, as its account and with its environment.
set -eu
here=${0%/*}
root=${here%/*}
. "$here/bundle.env"
. "$here/account.sh"
set -a
. "$here/environment"
. "$root/secrets.env"
. "$root/generated.env"
set +a
cd "$DATA"
as_agent "$@"
