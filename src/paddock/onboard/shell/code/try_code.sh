# try_code.sh - prove that a code tree that is installed already works in this container
#
# Arguments: TREE PROOF...
# Environment: THROWAWAY is set in a container that is removed after this script
set -eu
tree=$1
shift
# With -I -S it reads nothing of the tree.
python=$tree/bin/python
. ./state/prove.sh

home=$(mktemp -d)
prove "$python" -B "$@"
