# Library: create the agent's account in the container.
# Expects: root in the container; $USER_NAME, $USER_UID, $USER_GROUP, $USER_GID, $ACCOUNT_HOME.

refuse() { # MESSAGE
    echo "paddock: $1" >&2
    exit 78
}

# Edit the files directly, because not every distribution has useradd. Paddock's own lines have a mark. A line without the
# mark belongs to the distribution.
make_account() {
    shell=/bin/sh
    [ ! -x /bin/bash ] || shell=/bin/bash
    grep -v ':Paddock agent:' /etc/passwd >/etc/passwd.paddock
    grep -v ':!paddock:' /etc/group >/etc/group.paddock
    known=
    while IFS=: read -r name _ uid _; do
        case "$name:$uid" in
            "$USER_NAME:$USER_UID") known=yes ;;
            "$USER_NAME:"* | *":$USER_UID") refuse "the image has a user $name with uid $uid: give the agent another user:" ;;
        esac
    done </etc/passwd.paddock
    [ -n "$known" ] ||
        echo "$USER_NAME:*:$USER_UID:$USER_GID:Paddock agent:$ACCOUNT_HOME:$shell" >>/etc/passwd.paddock
    known=
    while IFS=: read -r name _ gid _; do
        case "$name:$gid" in
            *":$USER_GID") known=yes ;;
            "$USER_GROUP:"*) refuse "the image has a group $name with gid $gid: give the agent another user:" ;;
        esac
    done </etc/group.paddock
    [ -n "$known" ] || echo "$USER_GROUP:!paddock:$USER_GID:" >>/etc/group.paddock
    for file in passwd group; do
        cmp -s "/etc/$file.paddock" "/etc/$file" || cat "/etc/$file.paddock" >"/etc/$file"
        rm "/etc/$file.paddock"
    done
}
