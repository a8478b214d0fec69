# hostkey.sh - give a machine a new ssh host key
#
# Arguments: VERB; "stage" creates a key beside the one in use, "switch" replaces all host keys with it
# Output: for "stage", the public key
#
# The ssh connection in which "switch" runs stays open.
set -eu
umask 077
verb=$1

new=/etc/ssh/paddock-new
case "$verb" in
    stage)
        if [ ! -e "$new/ssh_host_ed25519_key" ]; then
            rm -rf "$new" "$new.part"
            mkdir "$new.part"
            ssh-keygen -q -t ed25519 -N '' -C "$(uname -n)" -f "$new.part/ssh_host_ed25519_key"
            mv -T "$new.part" "$new" # with both files, so that a kill leaves no half of a key
        fi
        cat "$new/ssh_host_ed25519_key.pub"
        ;;
    switch)
        [ -e "$new/ssh_host_ed25519_key.pub" ]
        rm -f /etc/ssh/ssh_host_*
        mv "$new"/* /etc/ssh/
        chmod 644 /etc/ssh/ssh_host_ed25519_key.pub
        rmdir "$new"
        systemctl try-restart ssh.service
        ;;
esac
