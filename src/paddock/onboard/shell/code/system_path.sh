# Library: the directories of programs that only root changes.
# Expects: nothing.
# Sets: $SYSTEM_PATH.
SYSTEM_PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
