#!/bin/sh
# start ENTRYPOINT...: process 1 of a container whose image brings the agent's code: adds the environment in force, and
# becomes what the image would have started, with the agent's arguments. The image itself drops from root to the agent.
set -eu
here=${0%/*}
root=${here%/*}
set -a
. "$here/environment"
. "$root/secrets.env"
. "$root/generated.env"
set +a
for each in "$here"/processes/*; do
    . "$each"
done
