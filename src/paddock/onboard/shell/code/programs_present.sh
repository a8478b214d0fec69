# programs_present.sh - fail unless all programs are on the PATH
#
# Arguments: PROGRAM...
for program; do
    command -v "$program" >/dev/null || { echo "there is no $program: is a package missing under packages:?" >&2; exit 1; }
done
