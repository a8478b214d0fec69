# Library: the record of the last change of an agent's version, in its state.
# Expects: nothing. .paddock must be known to be Paddock's own.

# .paddock/upgrade is written when the state was saved for another version. It has lines KEY=VALUE.
upgrade_says() { # STATE KEY
    sed -n "s/^$2=//p" "$1/.paddock/upgrade" 2>/dev/null || true
}

# Print where the state from before a restoration is. Nothing if none took the state's place, or if it ended. The state
# from before is named `incoming` for a moment: after it was exchanged with the received one, and before it got its name.
replaced_state() { # STATE
    own=$1/.paddock
    if [ -d "$own/before" ]; then
        echo "$own/before"
    elif [ -d "$own/incoming" ] && [ -e "$own/incoming.json" ]; then
        ! grep -q "\"inode\": $(stat -c %i -- "$1/home")," "$own/incoming.json" || echo "$own/incoming"
    fi
}
