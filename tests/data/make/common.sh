# Run a tool on loopback once per set of options, and keep what client and server print.
#
# A script of this folder sources this file. Each `run NAME SERVER… -- CLIENT…` writes
# $OUT/TOOL/NAME.client.log and $OUT/TOOL/NAME.server.log without the command lines, which stand in NAME.command.
# One set of options in three, by a hash of its name, goes to $OUT/TOOL/held-out: nobody looks at these logs while
# a reader is being mended, so that they show how well it reads logs that it does not know.
# Nothing here installs a tool: the script skips one that is not on the PATH.

set -u
OUT=${OUT:?"set OUT to the folder that gets the logs"}
MAX_SECONDS=${MAX_SECONDS:-12}

need() {
    for program in "$@"; do
        command -v "$program" > /dev/null || { echo "skipped: $program is not on the PATH" >&2; exit 0; }
    done
}

folder_of() {
    local hash
    hash=$(printf '%s' "$TOOL/$1" | sha256sum | cut -c1-8)
    if [ $((0x$hash % 3)) -eq 0 ]; then echo "$OUT/$TOOL/held-out"; else echo "$OUT/$TOOL"; fi
}

# run NAME SERVER… -- CLIENT…: either may be empty; the server is stopped when the client has ended.
run() {
    local name=$1 folder server=() server_pid
    folder=$(folder_of "$name")
    shift
    while [ $# -gt 0 ] && [ "$1" != -- ]; do server+=("$1"); shift; done
    shift
    mkdir -p "$folder"
    printf 'server: %s\nclient: %s\n' "${server[*]}" "$*" > "$folder/$name.command"
    if [ ${#server[@]} -gt 0 ]; then
        timeout "$MAX_SECONDS" "${server[@]}" > "$folder/$name.server.log" 2>&1 &
        server_pid=$!
        sleep "${SETTLE:-0.3}"
    fi
    if [ $# -gt 0 ]; then timeout "$MAX_SECONDS" "$@" > "$folder/$name.client.log" 2>&1; fi
    if [ ${#server[@]} -gt 0 ]; then
        sleep 0.3
        kill -INT "$server_pid" 2> /dev/null
        sleep 0.2
        kill "$server_pid" 2> /dev/null
        wait "$server_pid" 2> /dev/null
    fi
}
