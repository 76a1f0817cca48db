#!/bin/bash
# Logs of neper with each option that changes its output.
TOOL=neper; . "$(dirname "$0")/common.sh"; need tcp_stream tcp_rr tcp_crr udp_stream udp_rr
P=(-C 12806 -P 12807 -l 1); H=(-c -H 127.0.0.1)
for test in tcp_stream udp_stream tcp_rr udp_rr tcp_crr; do
    name=${test/_/-}
    run $name-plain $test "${P[@]}" -- $test "${P[@]}" "${H[@]}"
    run $name-flows $test "${P[@]}" -F 4 -T 2 -- $test "${P[@]}" -F 4 -T 2 "${H[@]}"
    run $name-samples $test "${P[@]}" -I 0.2 -A/dev/stdout -- $test "${P[@]}" -I 0.2 -A/dev/stdout "${H[@]}"
    run $name-intervals $test "${P[@]}" -I 0.2 -- $test "${P[@]}" -I 0.2 "${H[@]}"
done
for test in tcp_rr udp_rr tcp_crr; do
    name=${test/_/-}
    run $name-percentiles $test "${P[@]}" -- $test "${P[@]}" -p 25,50,90,95,99,99.9 "${H[@]}"
    run $name-size $test "${P[@]}" -Q 100 -R 200 -- $test "${P[@]}" -Q 100 -R 200 "${H[@]}"
done
run tcp-stream-both tcp_stream "${P[@]}" -r -w -- tcp_stream "${P[@]}" -r -w "${H[@]}"
run tcp-stream-read tcp_stream "${P[@]}" -w -- tcp_stream "${P[@]}" -r "${H[@]}"
run tcp-stream-mbps tcp_stream "${P[@]}" --throughput-opt=Mb -- tcp_stream "${P[@]}" "${H[@]}"
run tcp-stream-paced tcp_stream "${P[@]}" -- tcp_stream "${P[@]}" -m 100000000 "${H[@]}"
run tcp-stream-buffer tcp_stream "${P[@]}" -B 4096 -- tcp_stream "${P[@]}" -B 4096 "${H[@]}"
run tcp-stream-v6 tcp_stream "${P[@]}" -6 -- tcp_stream "${P[@]}" -6 -c -H ::1
run tcp-stream-nonblocking tcp_stream "${P[@]}" --nonblocking -- tcp_stream "${P[@]}" --nonblocking "${H[@]}"
run refused -- tcp_rr "${P[@]}" "${H[@]}"
