#!/bin/bash
# Logs of ethr with each option that changes its output.
TOOL=ethr; . "$(dirname "$0")/common.sh"; need ethr
S=(ethr -s -port 12808 -no); C=(ethr -c 127.0.0.1 -port 12808 -d 2s -no); SETTLE=0.6
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
run logfile ethr -s -port 12808 -o /dev/stdout -- ethr -c 127.0.0.1 -port 12808 -d 2s -o /dev/stdout
run logfile-latency ethr -s -port 12808 -o /dev/stdout -- ethr -c 127.0.0.1 -port 12808 -d 2s -t l -o /dev/stdout
run two-tests "${S[@]}" -- sh -c "${C[*]}; ${C[*]} -t l; ${C[*]} -t c"
run two-tests-udp "${S[@]}" -- sh -c "${C[*]}; ${C[*]} -p udp -l 1400B"
run refused -- ethr -c 127.0.0.1 -port 12899 -d 1s -no
