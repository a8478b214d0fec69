# Library: the agent that an id names.
# Expects: nothing. An id is PROJECT_NAME. What Paddock 0.1 deployed has the name alone.

name_of() { # ID
    echo "${1#*_}"
}

in_words() { # ID
    case "$1" in
        *_*) echo "${1#*_} of project ${1%%_*}" ;;
        *) echo "$1, which has no project" ;;
    esac
}
