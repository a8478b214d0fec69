# Library: record in a state which agent it belongs to.
# Expects: $STATE, $AGENT; umask 077.

write_identity() {
    mkdir -p "$STATE/.paddock"
    printf 'agent=%s\nid=%s\n' "$AGENT" "$(cat /proc/sys/kernel/random/uuid)" >"$STATE/.paddock/identity.new"
    sync "$STATE/.paddock/identity.new"
    mv "$STATE/.paddock/identity.new" "$STATE/.paddock/identity"
}
