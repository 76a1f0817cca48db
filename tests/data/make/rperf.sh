#!/bin/bash
# Logs of rperf with each option that changes its output. Info lines go to standard error, results to standard output.
TOOL=rperf; . "$(dirname "$0")/common.sh"; need rperf
S=(rperf -s -p 12822); C=(rperf -c 127.0.0.1 -p 12822 -t 2); SETTLE=0.6
run plain "${S[@]}" -- "${C[@]}"
run fast "${S[@]}" -- "${C[@]}" -b 50000000
run parallel "${S[@]}" -- "${C[@]}" -b 20000000 -P 2
run reverse "${S[@]}" -- "${C[@]}" -b 20000000 -R
run omit "${S[@]}" -- "${C[@]}" -b 20000000 -O 1
run megabyte "${S[@]}" -- "${C[@]}" -b 20000000 -f megabyte
run json "${S[@]}" -- "${C[@]}" -b 20000000 -f json
run json-parallel "${S[@]}" -- "${C[@]}" -b 20000000 -f json -P 2
run json-reverse "${S[@]}" -- "${C[@]}" -b 20000000 -f json -R
run json-omit "${S[@]}" -- "${C[@]}" -b 20000000 -f json -O 1
run udp "${S[@]}" -- "${C[@]}" -u -b 2000000
run udp-parallel "${S[@]}" -- "${C[@]}" -u -b 2000000 -P 2
run udp-reverse "${S[@]}" -- "${C[@]}" -u -b 2000000 -R
run udp-megabyte "${S[@]}" -- "${C[@]}" -u -b 2000000 -f megabyte
run udp-omit "${S[@]}" -- "${C[@]}" -u -b 2000000 -O 1
run udp-json "${S[@]}" -- "${C[@]}" -u -b 2000000 -f json
run udp-json-parallel "${S[@]}" -- "${C[@]}" -u -b 2000000 -f json -P 2
run udp-json-reverse "${S[@]}" -- "${C[@]}" -u -b 2000000 -f json -R
run length "${S[@]}" -- "${C[@]}" -b 20000000 -l 4096 -N
run stdout-only "${S[@]}" -- sh -c "${C[*]} -b 20000000 2> /dev/null"
run stdout-only-udp "${S[@]}" -- sh -c "${C[*]} -u -b 2000000 2> /dev/null"
run refused -- rperf -c 127.0.0.1 -p 12899 -t 1
