"""The longer texts of `--help`. `{program}` is the name by which the user called the command."""

from __future__ import annotations

from typing import Final

ABOUT: Final = """\
A simulated Proxmox VE node or cluster on this machine: the REST API over HTTPS,
with real LXC containers (as root) or simulated ones (without root).
For tests and trials of programs that talk to Proxmox.
"""

# Printed below the list of verbs.
TOP: Final = """\
examples:
  {program} up --runtime memory
                start with simulated containers; needs no root
  {program} token 'root@pam!sandbox'
                print a token for the Authorization header
  {program} root -- pct list
                run a command on the node's console
  {program} down
                stop; the next `up` continues with the same containers
  {program} clean
                delete everything

what it changes on this machine:
  With simulated containers: files in the state directory, and a server that
  listens on 127.0.0.1.
  With real containers also: a network bridge, dnsmasq on it, iptables rules,
  IP forwarding, mounts below /run/pvebox, and a template of about 100 MB in
  ~/.cache/pvebox.
  `{program} down` removes all of this except the template and the state.
  `{program} clean` deletes the state too. Delete ~/.cache/pvebox by hand.
"""

VERBS: Final[dict[str, str]] = {
    "serve": """\
The first line on standard output is JSON with the URL, the CA file and the
tokens, once the server answers. Only a pipe gets the tokens: elsewhere the
line names a private file that has them.

Stop the server with Ctrl-C or SIGTERM. Containers keep running, and the next
`{program} serve` finds them. `{program} down` stops them and removes
the network, `{program} clean` deletes them.

examples:
  {program} serve --runtime memory --port 0 --state /tmp/box
  {program} serve --runtime memory --nodes pve1,pve2
""",
    "up": """\
Prints JSON with the URL, the CA file and the tokens, or a summary on a
terminal. If the server runs already, it is left alone. Without options, a
sandbox starts with those of the time before.
`{program} down` stops it and `{program} clean` deletes it.

With real containers (the default, as root) this creates a bridge with DHCP
and NAT. The first time, it builds a Debian template with mmdebstrap, which
takes some minutes and needs a Debian mirror.

examples:
  {program} up --runtime memory
  {program} up --port 8007 --state /srv/box --subnet 10.77.0.0/24
  {program} up --model
                also serve a stand-in for a language model
""",
    "down": """\
Removes the processes, mounts, bridge and firewall rules, and sets IP
forwarding back to what it was. Containers, volumes, tokens and tasks stay in
the state directory.
""",
    "clean": """\
Does what `{program} down` does, then deletes the state directory. It
refuses a directory that is not a sandbox's. The template for real containers
stays in ~/.cache/pvebox: delete that directory by hand.
""",
    "token": """\
Prints NAME=SECRET, the form that a client sends in its header:
  Authorization: PVEAPIToken=NAME=SECRET

The tokens of a new sandbox:
  root@pam!sandbox     all privileges
  paddock@pve!deploy   all containers, and space on all storages
  pooled@pve!setup     the containers of the pools paddock and paddock-state
  pooled@pve!daily     the same, but cannot delete those of paddock-state
""",
    "root": """\
The command runs on the simulated node, never on this machine.

examples:
  {program} root -- pct list
  {program} root -- pct set 100 -mp0 /srv/data,mp=/data
  {program} root -- pveum user token add root@pam ci --privsep 0
  {program} root <lines.txt
""",
}

# `up` prints this on a terminal.
READY: Final = """\
The server answers on {url}
CA file: {ca}
Node {node}, storage {storage}, template {base}
Tokens, which `{program} token NAME{state}` prints with their secrets:
  {tokens}
Stop:   {program} down{state}
Delete: {program} clean{state}
"""
