# After the shared parts, where an account's own systemd supervises.
if systemctl show-environment >/dev/null 2>&1; then
    report init "systemd --user"
else
    report init "no manager for this account"
fi
[ "$(loginctl show-user "$(id -un)" --property Linger --value 2>/dev/null)" = yes ] ||
    report note "$agent ends when its account logs out; this keeps it running: sudo loginctl enable-linger $(id -un)"
