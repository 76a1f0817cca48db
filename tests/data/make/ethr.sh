#!/bin/bash
# Logs of ethr with each option that changes its output.
TOOL=ethr; . "$(dirname "$0")/common.sh"; need ethr
S=(ethr -s -port 12808 -no); C=(ethr -c 127.0.0.1 -port 12808 -d 2s -no); SETTLE=1.6; ulimit -n 1000000 2> /dev/null; F=$(mktemp -d); trap 'rm -r "$F"' EXIT
run bandwidth "${S[@]}" -- "${C[@]}"
run bandwidth-streams "${S[@]}" -- "${C[@]}" -n 3
run bandwidth-reverse "${S[@]}" -- "${C[@]}" -r
run bandwidth-size "${S[@]}" -- "${C[@]}" -l 4KB
run bandwidth-limited "${S[@]}" -- "${C[@]}" -b 100M
run bandwidth-warm-up "${S[@]}" -- "${C[@]}" -w 2 -g 0
run udp "${S[@]}" -- "${C[@]}" -p udp -l 1400B
run udp-streams "${S[@]}" -- "${C[@]}" -p udp -n 2 -l 1400B
run udp-limited "${S[@]}" -- "${C[@]}" -p udp -b 10M
run udp-packets "${S[@]}" -- "${C[@]}" -p udp -t p
run connections "${S[@]}" -- "${C[@]}" -t c
run connections-streams "${S[@]}" -- "${C[@]}" -t c -n 4
run latency "${S[@]}" -- "${C[@]}" -t l
run latency-count "${S[@]}" -- "${C[@]}" -t l -i 20000
run latency-size "${S[@]}" -- "${C[@]}" -t l -l 1KB
run ping "${S[@]}" -- "${C[@]}" -t pi
run ping-external "${S[@]}" -- ethr -x 127.0.0.1:12808 -d 2s -t pi -no
logfile() { # logfile NAME OPTIONS…: keep the files that -o names, not what the terminal shows
    local name=$1
    shift
    run "$name" ethr -s -port 12808 -o "$F/server" -- ethr -c 127.0.0.1 -port 12808 -d 2s "$@" -o "$F/client"
    mv "$F/server" "$(folder_of "$name")/$name.server.log"
    mv "$F/client" "$(folder_of "$name")/$name.client.log"
}
logfile logfile
logfile logfile-latency -t l
logfile logfile-reverse -r
logfile logfile-udp -p udp -l 1400B
run two-tests "${S[@]}" -- sh -c "${C[*]}; ${C[*]} -t l; ${C[*]} -n 2 -t c"
run two-tests-udp "${S[@]}" -- sh -c "${C[*]}; ${C[*]} -p udp -l 1400B"
run refused -- ethr -c 127.0.0.1 -port 12899 -d 1s -no
