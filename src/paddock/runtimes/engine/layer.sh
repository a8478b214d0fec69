# Library: list the packages that were installed in a container.
# Expects: nothing.

# Print packages of the distribution, of Python and of Node that the image lacks. They are lost with the container.
layer() { # ENGINE CONTAINER
    "$1" diff "$2" | sed -n \
        -e 's|^A /var/lib/dpkg/info/\([^/]*\)\.list$|\1|p' \
        -e 's|^A /.*/\(site\|dist\)-packages/\([^/]*\)-[^/-]*\.dist-info$|\2|p' \
        -e 's|^A /.*/lib/node_modules/\([^/@]*\)$|\1|p' \
        -e 's|^A /.*/lib/node_modules/\(@[^/]*/[^/]*\)$|\1|p'
}
