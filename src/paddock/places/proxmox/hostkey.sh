# hostkey.sh stage: makes a new ssh host key beside the one in use and prints its public part.
# hostkey.sh switch: puts it in the place of all there are. The connection this runs in stays.
set -eu
umask 077
new=/etc/ssh/paddock-new
case $1 in
    stage)
        mkdir -p "$new"
        [ -e "$new/ssh_host_ed25519_key" ] ||
            ssh-keygen -q -t ed25519 -N '' -C "$(uname -n)" -f "$new/ssh_host_ed25519_key"
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
