# Library: what is installed in a container.
# Expects: nothing.

# Print what would be lost with a container: packages of the distribution, of Python and of Node that its image lacks.
layer() { # ENGINE CONTAINER
    "$1" diff "$2" | sed -n \
        -e 's|^A /var/lib/dpkg/info/\([^/]*\)\.list$|\1|p' \
        -e 's|^A /.*/\(site\|dist\)-packages/\([^/]*\)-[^/-]*\.dist-info$|\2|p' \
        -e 's|^A /.*/lib/node_modules/\([^/@]*\)$|\1|p' \
        -e 's|^A /.*/lib/node_modules/\(@[^/]*/[^/]*\)$|\1|p'
}
