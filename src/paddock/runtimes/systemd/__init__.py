"""The runtime systemd: units, accounts and directories as files of systemd."""
