# apply.sh ROOT ID: puts the bundle from stdin in force. What runs keeps running until `paddock run` starts anew.
root=$1 id=$2
receive
claim_state
write_state_files
[ -z "$TREE" ] || keep_version "$TREE"
put_in_force
rm -f "$root/pending"
