#!/bin/bash
# Logs of ntttcp for Linux with each option that changes its output.
TOOL=ntttcp; . "$(dirname "$0")/common.sh"; need ntttcp
R=(ntttcp -r -t 2); S=(ntttcp -s127.0.0.1 -t 2); SETTLE=0.5
run plain "${R[@]}" -- "${S[@]}"
run verbose "${R[@]}" -V -- "${S[@]}" -V
run warm-up "${R[@]}" -W 1 -V -- "${S[@]}" -W 1 -V
run warm-up-cool-down "${R[@]}" -W 1 -C 1 -- "${S[@]}" -W 1 -C 1
run ports "${R[@]}" -P 2 -- "${S[@]}" -P 2 -n 2
run connections "${R[@]}" -P 2 -- "${S[@]}" -P 2 -n 1 -l 3
run udp "${R[@]}" -u -b 1400 -- "${S[@]}" -u -b 1400
run udp-verbose "${R[@]}" -u -b 1400 -V -- "${S[@]}" -u -b 1400 -V
run retransmits "${R[@]}" -R -- "${S[@]}" -R
run buffer "${R[@]}" -b 4K -- "${S[@]}" -b 4K
run no-sync "${R[@]}" -N -- "${S[@]}" -N
run interface "${R[@]}" --show-tcp-retrans --show-nic-packets lo --show-dev-interrupts lo -- "${S[@]}" --show-tcp-retrans --show-nic-packets lo --show-dev-interrupts lo
run quiet "${R[@]}" -Q -- "${S[@]}" -Q
run json "${R[@]}" -O /dev/null -j/dev/stdout -- "${S[@]}" -j/dev/stdout
run xml "${R[@]}" -x/dev/stdout -- "${S[@]}" -x/dev/stdout
run udp-json "${R[@]}" -u -b 1400 -j/dev/stdout -- "${S[@]}" -u -b 1400 -j/dev/stdout
run paced "${R[@]}" -- "${S[@]}" -B 100M
run multi-client timeout 6 ntttcp -r -M -t 2 -- "${S[@]}" -L
run refused -- ntttcp -s127.0.0.1 -t 1 -p 12899
