# Library: list the software that a person or the agent installed in a container.
# Expects: $root.

# Print packages of the distribution, of Python and of Node that the image lacks, and that nobody installs again. What they
# need came with them, and is left out: pip marks what it was asked for, and apt what it was not asked for.
layer() { # ENGINE CONTAINER
    found=$("$1" diff "$2" | sed -n \
        -e 's#^A /var/lib/dpkg/info/\([^/:]*\)\(:[^/]*\)\{0,1\}\.list$#=\1#p' \
        -e 's#^A /.*/\(site\|dist\)-packages/\([^/]*\)-[^/-]*\.dist-info/REQUESTED$#\2#p' \
        -e 's#^A /.*/lib/node_modules/\([^/@]*\)$#\1#p' \
        -e 's#^A /.*/lib/node_modules/\(@[^/]*/[^/]*\)$#\1#p')
    printf '%s\n' "$found" | sed -n 's/^=//p' | grep -vxF -- "$(packages_of_file && needed_by_others "$1" "$2")" || true
    printf '%s\n' "$found" | sed -n '/^[^=]/p'
}

# The start of the container installs them again.
packages_of_file() {
    sed -n 's/^PACKAGES="\(.*\)"$/\1/p' "$root/current/bundle.env" 2>/dev/null | tr ' ' '\n'
}

# Read from outside, because the container may be stopped.
needed_by_others() { # ENGINE CONTAINER
    "$1" cp "$2:/var/lib/apt/extended_states" - 2>/dev/null | tar -xOf - 2>/dev/null | head -c 4194304 |
        sed -n -e 's/^Package: //p' -e 's/^Auto-Installed: /=/p' | sed -n -e '/^=1$/{x;p;d;}' -e 'h'
}
